#include "CPerdureSDK.h"

#include <stddef.h>
#include <string.h>

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char perdure_h[] = {
#embed "../CPerdureABI/include/perdure.h"
};
static const unsigned char perdure_easy_h[] = {
#embed "../CPerdureABI/include/perdure_easy.h"
};
static const unsigned char perdure_hpp[] = {
#embed "../CPerdureABI/include/perdure.hpp"
};
static const unsigned char perdure_map[] = {
#embed "../CPerdureABI/include/perdure.map"
};
static const unsigned char perdure_rs[] = {
#embed "../../sdk/rust/perdure.rs"
};
static const unsigned char README_md[] = {
#embed "../../sdk/templates/README.md"
};
static const unsigned char gitignore[] = {
#embed "../../sdk/templates/gitignore"
};
static const unsigned char manifest_json[] = {
#embed "../../sdk/templates/manifest.json"
};
static const unsigned char plugin_faux_json[] = {
#embed "../../sdk/templates/plugin.faux.json"
};
static const unsigned char expected_txt[] = {
#embed "../../sdk/templates/expected.txt"
};
static const unsigned char c_plugin_c[] = {
#embed "../../sdk/templates/c/plugin.c"
};
static const unsigned char c_build[] = {
#embed "../../sdk/templates/c/build"
};
static const unsigned char cpp_plugin_cpp[] = {
#embed "../../sdk/templates/cpp/plugin.cpp"
};
static const unsigned char cpp_build[] = {
#embed "../../sdk/templates/cpp/build"
};
static const unsigned char rust_plugin_rs[] = {
#embed "../../sdk/templates/rust/plugin.rs"
};
static const unsigned char rust_build[] = {
#embed "../../sdk/templates/rust/build"
};
static const unsigned char zig_plugin_zig[] = {
#embed "../../sdk/templates/zig/plugin.zig"
};
static const unsigned char zig_perdure_zig[] = {
#embed "../../sdk/templates/zig/perdure.zig"
};
static const unsigned char zig_build[] = {
#embed "../../sdk/templates/zig/build"
};

struct file {
  const char *name;
  const unsigned char *bytes;
  size_t count;
};

#define FILE_(name, bytes) {name, bytes, sizeof bytes}

static const struct file files[] = {
    FILE_("perdure.h", perdure_h),
    FILE_("perdure_easy.h", perdure_easy_h),
    FILE_("perdure.hpp", perdure_hpp),
    FILE_("perdure.map", perdure_map),
    FILE_("perdure.rs", perdure_rs),
    FILE_("README.md", README_md),
    FILE_("gitignore", gitignore),
    FILE_("manifest.json", manifest_json),
    FILE_("plugin.faux.json", plugin_faux_json),
    FILE_("expected.txt", expected_txt),
    FILE_("c/plugin.c", c_plugin_c),
    FILE_("c/build", c_build),
    FILE_("cpp/plugin.cpp", cpp_plugin_cpp),
    FILE_("cpp/build", cpp_build),
    FILE_("rust/plugin.rs", rust_plugin_rs),
    FILE_("rust/build", rust_build),
    FILE_("zig/plugin.zig", zig_plugin_zig),
    FILE_("zig/perdure.zig", zig_perdure_zig),
    FILE_("zig/build", zig_build),
};

int perdure_sdk_count(void) { return (int)(sizeof files / sizeof files[0]); }

static const unsigned char *bytes_of(int file, int part, size_t *count) {
  *count = 0;
  if (file < 0 || file >= perdure_sdk_count()) return 0;
  const struct file *found = &files[file];
  *count = part == PERDURE_SDK_NAME ? strlen(found->name) : found->count;
  return part == PERDURE_SDK_NAME ? (const unsigned char *)found->name : found->bytes;
}

long long perdure_sdk_size(int file, int part) {
  size_t count;
  (void)bytes_of(file, part, &count);
  return (long long)count;
}

unsigned long long perdure_sdk_word(int file, int part, long long index) {
  size_t count;
  const unsigned char *bytes = bytes_of(file, part, &count);
  unsigned long long word = 0;
  if (!bytes || index < 0) return 0;
  for (size_t i = 0; i < 8 && (size_t)index + i < count; i++)
    word |= (unsigned long long)bytes[(size_t)index + i] << (8 * i);
  return word;
}
