#include "launch.h"
int probe(void) { return 0; }
