#ifndef PERDURE_H
#define PERDURE_H
#endif
