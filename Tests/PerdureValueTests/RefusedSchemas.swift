/// The groups of the suite whose schema is refused, and the keyword or reference for which it is.
///
/// References are served only within the document and without `$id` or anchors.
let refusedGroups: [String: String] = [
  "additionalProperties.json: additionalProperties being false does not allow other properties":
    "patternProperties",
  "additionalProperties.json: additionalProperties does not look in applicators":
    "allOf",
  "additionalProperties.json: additionalProperties with propertyNames":
    "propertyNames",
  "additionalProperties.json: dependentSchemas with additionalProperties":
    "dependentSchemas",
  "additionalProperties.json: non-ASCII pattern with additionalProperties":
    "patternProperties",
  "defs.json: validate definition against metaschema":
    "reference https://json-schema.org/draft/2020-12/schema",
  "infinite-loop-detection.json: evaluating the same schema location against the same data location twice is not a sign of an infinite loop":
    "allOf",
  "items.json: items and subitems":
    "prefixItems",
  "items.json: items does not look in applicators, valid case":
    "allOf",
  "items.json: items with heterogeneous array":
    "prefixItems",
  "items.json: prefixItems validation adjusts the starting index for items":
    "prefixItems",
  "items.json: prefixItems with no additional items allowed":
    "prefixItems",
  "optional/float-overflow.json: all integers are multiples of 0.5, if overflow is handled":
    "multipleOf",
  "optional/unknownKeyword.json: $id inside an unknown keyword is not a real identifier":
    "reference https://localhost:1234/draft2020-12/unknownKeyword/my_identifier.json",
  "properties.json: properties, patternProperties, additionalProperties interaction":
    "patternProperties",
  "ref.json: $id must be resolved against nearest parent, not just immediate parent":
    "allOf",
  "ref.json: Recursive references between schemas":
    "$id",
  "ref.json: URN base URI with URN and JSON pointer ref":
    "reference urn:uuid:deadbeef-1234-0000-0000-4321feebdaed#/$defs/bar",
  "ref.json: URN base URI with URN and anchor ref":
    "$anchor",
  "ref.json: URN ref with nested pointer ref":
    "reference urn:uuid:deadbeef-4321-ffff-ffff-1234feebdaed",
  "ref.json: empty tokens in $ref json-pointer":
    "allOf",
  "ref.json: order of evaluation: $id and $anchor and $ref":
    "reference #bigint",
  "ref.json: order of evaluation: $id and $ref":
    "reference int.json",
  "ref.json: ref creates new scope when adjacent to keywords":
    "unevaluatedProperties",
  "ref.json: ref to else":
    "reference http://example.com/ref/else",
  "ref.json: ref to if":
    "reference http://example.com/ref/if",
  "ref.json: ref to then":
    "reference http://example.com/ref/then",
  "ref.json: ref with absolute-path-reference":
    "reference /absref/foobar.json",
  "ref.json: refs with relative uris and defs":
    "reference schema-relative-uri-defs2.json",
  "ref.json: relative pointer ref to array":
    "prefixItems",
  "ref.json: relative refs with absolute uris and defs":
    "reference schema-refs-absolute-uris-defs2.json",
  "ref.json: remote ref, containing refs itself":
    "reference https://json-schema.org/draft/2020-12/schema",
  "ref.json: simple URN base URI with $ref via the URN":
    "reference urn:uuid:deadbeef-1234-ffff-ffff-4321feebdaed",
]
