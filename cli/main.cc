// The program `slipway`: the command line and nothing else. A wheel's is linked with libslipway.so, others stand alone.
#include "slipway/slipway.h"

int main(int argc, char** argv) { return slipway_main(argc, argv); }
