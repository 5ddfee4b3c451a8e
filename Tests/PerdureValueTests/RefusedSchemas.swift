/// The groups of the suite whose schema is refused, and the keyword or reference for which it is.
///
/// All of them need a document from elsewhere: a schema behind a URI, or the meaning of `$schema`.
let refusedGroups: [String: String] = [
  "defs.json: validate definition against metaschema":
    "reference https://json-schema.org/draft/2020-12/schema",
  "dynamicRef.json: $ref and $dynamicAnchor are independent of order - $defs first":
    "reference extendible-dynamic-ref.json",
  "dynamicRef.json: $ref and $dynamicAnchor are independent of order - $ref first":
    "reference extendible-dynamic-ref.json",
  "dynamicRef.json: $ref to $dynamicRef finds detached $dynamicAnchor":
    "reference http://localhost:1234/draft2020-12/detached-dynamicref.json#/$defs/foo",
  "dynamicRef.json: strict-tree schema, guards against misspelled properties":
    "reference tree.json",
  "dynamicRef.json: tests for implementation dynamic anchor and reference link":
    "reference extendible-dynamic-ref.json",
  "optional/cross-draft.json: refs to historic drafts are processed as historic drafts":
    "reference http://localhost:1234/draft2019-09/ignore-prefixItems.json",
  "optional/format-assertion.json: schema that uses custom metaschema with format-assertion: false":
    "$schema",
  "optional/format-assertion.json: schema that uses custom metaschema with format-assertion: true":
    "$schema",
  "ref.json: remote ref, containing refs itself":
    "reference https://json-schema.org/draft/2020-12/schema",
  "refRemote.json: $ref to $ref finds detached $anchor":
    "reference http://localhost:1234/draft2020-12/detached-ref.json#/$defs/foo",
  "refRemote.json: Location-independent identifier in remote ref":
    "reference http://localhost:1234/draft2020-12/locationIndependentIdentifier.json#/$defs/refToInteger",
  "refRemote.json: anchor within remote ref":
    "reference http://localhost:1234/draft2020-12/locationIndependentIdentifier.json#foo",
  "refRemote.json: base URI change":
    "reference folderInteger.json",
  "refRemote.json: base URI change - change folder":
    "reference folderInteger.json",
  "refRemote.json: base URI change - change folder in subschema":
    "reference folderInteger.json",
  "refRemote.json: fragment within remote ref":
    "reference http://localhost:1234/draft2020-12/subSchemas.json#/$defs/integer",
  "refRemote.json: ref within remote ref":
    "reference http://localhost:1234/draft2020-12/subSchemas.json#/$defs/refToInteger",
  "refRemote.json: remote HTTP ref with different $id":
    "reference http://localhost:1234/different-id-ref-string.json",
  "refRemote.json: remote HTTP ref with different URN $id":
    "reference http://localhost:1234/urn-ref-string.json",
  "refRemote.json: remote HTTP ref with nested absolute ref":
    "reference http://localhost:1234/nested-absolute-ref-to-string.json",
  "refRemote.json: remote ref":
    "reference http://localhost:1234/draft2020-12/integer.json",
  "refRemote.json: remote ref with ref to defs":
    "reference ref-and-defs.json",
  "refRemote.json: retrieved nested refs resolve relative to their URI not $id":
    "reference nested/foo-ref-string.json",
  "refRemote.json: root ref in remote ref":
    "reference name-defs.json#/$defs/orNull",
  "vocabulary.json: ignore unrecognized optional vocabulary":
    "$schema",
  "vocabulary.json: schema that uses custom metaschema with with no validation vocabulary":
    "$schema",
]
