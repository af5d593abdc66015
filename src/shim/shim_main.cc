#include "shim/shim.h"

int main(int argc, char** argv) { return interlock::shim::run_shim(argc, argv); }
