#ifndef PERDURE_LINUX_H
#define PERDURE_LINUX_H
#endif
