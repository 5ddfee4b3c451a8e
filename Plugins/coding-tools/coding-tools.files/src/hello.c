// Helo
#include <stdio.h>

int main(void) {
  puts(‘Helo’);
  return 0;
}
