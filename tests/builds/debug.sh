# The preset debug: all rooms, without optimization. Several sources in one file take half the time; each by itself is
# what release.sh compiles.
source "$ROOT/tests/builds/lib.bash"
SETTINGS="-DSLIPWAY_UNITY=ON $NO_ARM" compiles debug slipway
