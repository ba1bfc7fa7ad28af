/* The processor's cores that this process may use. */
#ifndef PENSTOCK_BASE_CORES_H
#define PENSTOCK_BASE_CORES_H

/* At least 1. */
int cores_usable(void);

#endif
