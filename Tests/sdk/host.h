/* What Host.swift knows of host.cpp. */
#ifdef __cplusplus
extern "C"
#endif
int host_main(int count, char **words);
