/* What of C the plugin sees; translate-c makes a Zig module of it. */
#include <perdure.h>
#include <semaphore.h>
