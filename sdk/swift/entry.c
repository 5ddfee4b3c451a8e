/* The part of a plugin in Swift that the compiler of Swift cannot make: the note, the manifest, and
 * the entry, which hands both on to the kit. MANIFEST is the path of the manifest. */
#include "perdure.h"

PDR_PLUGIN_NOTE("swift-static");

__asm__(".pushsection " PDR_MANIFEST_SECTION ",\"aR\",@progbits\n"
        ".hidden perdure_kit_manifest\n.globl perdure_kit_manifest\nperdure_kit_manifest:\n"
        ".incbin \"" MANIFEST "\"\n"
        ".hidden perdure_kit_manifest_end\n.globl perdure_kit_manifest_end\nperdure_kit_manifest_end:\n"
        ".popsection\n");

extern const char perdure_kit_manifest[] __attribute__((visibility("hidden")));
extern const char perdure_kit_manifest_end[] __attribute__((visibility("hidden")));

/* What @main makes; it names the type of the plugin and returns. */
int perdure_kit_main(int count, char **words);

int32_t perdure_kit_enter(const void *host, void *out, void *err, int32_t (*main)(int32_t, void *),
                          const void *manifest, intptr_t size);

static int32_t name_type(int32_t count, void *words) { return perdure_kit_main(count, words); }

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  return perdure_kit_enter(host, out, err, name_type, perdure_kit_manifest,
                           perdure_kit_manifest_end - perdure_kit_manifest);
}
