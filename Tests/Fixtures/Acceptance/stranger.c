/* Listens at a socket as another user, says so, and takes no requests. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int main(int count, char **words) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  if (count < 3 || setuid(65534) != 0) return 1;
  strncpy(address.sun_path, words[1], sizeof address.sun_path - 1);
  if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) return 2;
  if (chmod(words[1], 0666) != 0 || listen(descriptor, 4) != 0) return 3;
  FILE *journal = fopen(words[2], "w");
  if (!journal) return 4;
  fputs("listening\n", journal);
  fclose(journal);
  for (;;) pause();
}
