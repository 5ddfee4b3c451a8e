/* Compiles the headers, so that their layout assertions hold in every build of the host. */
#include "perdure.h"
#include "perdure_easy.h"
