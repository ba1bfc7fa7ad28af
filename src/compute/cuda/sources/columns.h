/*
 * Sums over rows, one for each column, in a fixed order and without atomic operations. The source that includes this defines
 * COLUMN_SUMS, how many sums a column has, and before it
 *
 *     DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS])
 *     DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS])
 *
 * Two launches: `column_partial` over GRID_COLUMNS, then `column_finish` over GRID_TILES. a.count is the number
 * of columns, a.number[0] that of rows, a.number[1] that of pieces of rows; a.more[0] has room for COLUMN_SUMS x pieces x
 * columns floats.
 */
#ifdef HOST
enum { COLUMN_LANES = 1, COLUMN_ROWS = 1 };
#else
enum { COLUMN_LANES = 32, COLUMN_ROWS = 8 };
#endif

KERNEL(column_partial) {
    SHARED float parts[COLUMN_SUMS][COLUMN_ROWS][COLUMN_LANES];
    const int64_t columns = a.count, rows = a.number[0], pieces = a.number[1];
    const int64_t tiles = (columns + COLUMN_LANES - 1) / COLUMN_LANES, each = (rows + pieces - 1) / pieces;
    const int lane = THREAD % COLUMN_LANES, line = THREAD / COLUMN_LANES;
    for (int64_t work = BLOCK; work < tiles * pieces; work += BLOCKS) {
        const int64_t piece = work / tiles, column = work % tiles * COLUMN_LANES + lane;
        const int64_t end = (piece + 1) * each < rows ? (piece + 1) * each : rows;
        float sums[COLUMN_SUMS];
        for (int s = 0; s < COLUMN_SUMS; s++) sums[s] = 0;
        for (int64_t row = piece * each + line; row < end && column < columns; row += COLUMN_ROWS) {
            float terms[COLUMN_SUMS];
            column_terms(&a, row, column, terms);
            for (int s = 0; s < COLUMN_SUMS; s++) sums[s] += terms[s];
        }
        BARRIER();
        for (int s = 0; s < COLUMN_SUMS; s++) parts[s][line][lane] = sums[s];
        BARRIER();
        if (line == 0 && column < columns) {
            for (int s = 0; s < COLUMN_SUMS; s++) {
                float sum = parts[s][0][lane];
                for (int l = 1; l < COLUMN_ROWS; l++) sum += parts[s][l][lane];
                ((float *)a.more[0])[(s * pieces + piece) * columns + column] = sum;
            }
        }
    }
}

KERNEL(column_finish) {
    SHARED float parts[COLUMN_SUMS][COLUMN_ROWS][COLUMN_LANES];
    const int64_t columns = a.count, pieces = a.number[1], tiles = (columns + COLUMN_LANES - 1) / COLUMN_LANES;
    const int lane = THREAD % COLUMN_LANES, line = THREAD / COLUMN_LANES;
    for (int64_t tile = BLOCK; tile < tiles; tile += BLOCKS) {
        const int64_t column = tile * COLUMN_LANES + lane;
        BARRIER();
        for (int s = 0; s < COLUMN_SUMS; s++) {
            float sum = 0;
            for (int64_t piece = line; piece < pieces && column < columns; piece += COLUMN_ROWS)
                sum += ((const float *)a.more[0])[(s * pieces + piece) * columns + column];
            parts[s][line][lane] = sum;
        }
        BARRIER();
        if (line == 0 && column < columns) {
            float sums[COLUMN_SUMS];
            for (int s = 0; s < COLUMN_SUMS; s++) {
                sums[s] = parts[s][0][lane];
                for (int l = 1; l < COLUMN_ROWS; l++) sums[s] += parts[s][l][lane];
            }
            column_store(&a, column, sums);
        }
    }
}
