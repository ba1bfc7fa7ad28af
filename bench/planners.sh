#!/bin/sh
# The planners on measured profiles: PipeDream's objective on its graphs, one cut or two on their chains, and MadPipe under tight
# memory, each with the time to solve. PENSTOCK_DATA holds profiles/pipedream. Takes about a minute.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
program=${PLANNERS:-build/release/bench/planners}
echo "$(machine), one thread"
"$program" "${PENSTOCK_DATA:?}/profiles"
