package import PerdureModel
package import PerdureValue

/// Plans the system entries that make a context show the wanted sections and offer the wanted
/// tools, each in the wanted order.
package enum PromptPlan {
  /// Returns the entries to append before a request; none if the model already sees all that.
  ///
  /// `sections` are texts by key, `tools` declarations with distinct names. After a head marker one
  /// entry restates everything and omits the older system entries that were retained, so that the
  /// request begins with one complete prompt.
  package static func entries(
    for context: ContextCache,
    sections: JSONObject,
    tools: [JSON],
    timestamp: Int64
  ) -> [EntryDraft] {
    let wanted = tools.map(declaration(of:))
    guard context.hasBaseline else {
      return [baseline(for: context, sections, wanted, timestamp)]
    }
    var patches = patches(from: context.prompt.sections, to: sections).map(Optional.some)
    let (removed, added) = changes(from: context.prompt.tools.map(declaration(of:)), to: wanted)
    if patches.isEmpty, !removed.isEmpty || !added.isEmpty { patches = [nil] }
    return patches.indices.map { index in
      // Changes of tools ride on the last entry.
      let isLast = index == patches.count - 1
      return entry(
        sections: patches[index],
        removed: isLast ? removed : [],
        added: isLast ? added : [],
        timestamp: timestamp
      )
    }
  }

  private static func baseline(
    for context: ContextCache,
    _ sections: JSONObject,
    _ tools: [JSON],
    _ timestamp: Int64
  ) -> EntryDraft {
    var draft = entry(sections: sections, removed: [], added: tools, timestamp: timestamp)
    let older = context.entries.filter { $0.kind == "pi.system" }
    if !older.isEmpty { draft.edits = older.map { .omit($0.id) } }
    return draft
  }

  /// The smallest patch that gives the wanted order, or one that takes all away and one that brings
  /// all back where none does.
  private static func patches(from shown: JSONObject, to wanted: JSONObject) -> [JSONObject] {
    let shownKeys = shown.map { $0.key }
    let wantedKeys = wanted.map { $0.key }
    let patched =
      shownKeys.filter { wanted[$0] != nil } + wantedKeys.filter { shown[$0] == nil }
    guard patched == wantedKeys else {
      return [JSONObject(shownKeys.map { ($0, JSON.null) }), wanted]
    }
    var patch = JSONObject()
    for (key, text) in shown where wanted[key] != text { patch[key] = wanted[key] ?? .null }
    for (key, text) in wanted where shown[key] == nil { patch[key] = text }
    return patch.isEmpty ? [] : [patch]
  }

  /// The smallest change that gives the wanted order, or a full exchange where none does.
  private static func changes(
    from offered: [JSON],
    to wanted: [JSON]
  ) -> (removed: [JSON], added: [JSON]) {
    func names(_ tools: [JSON]) -> [JSON] { tools.compactMap { $0["name"] } }
    let offeredTexts = offered.map(\.encoded)
    let wantedTexts = wanted.map(\.encoded)
    // So it is before nearly every request.
    if offeredTexts == wantedTexts { return ([], []) }
    let known = Set(offeredTexts)
    let kept = Set(wantedTexts).intersection(known)
    let remaining = zip(offered, offeredTexts).filter { kept.contains($0.1) }.map { $0.0 }
    let added = zip(wanted, wantedTexts).filter { !known.contains($0.1) }.map { $0.0 }
    guard names(remaining + added) == names(wanted) else { return (names(offered), wanted) }
    return (names(zip(offered, offeredTexts).filter { !kept.contains($0.1) }.map { $0.0 }), added)
  }

  /// What the model is told of a tool, and nothing else.
  private static func declaration(of tool: JSON) -> JSON {
    var declaration: JSONObject = [
      "name": tool["name"] ?? "", "description": tool["description"] ?? "",
      "parameters": tool["parameters"] ?? .null,
    ]
    declaration["constrainedSampling"] = tool["constrainedSampling"]
    return .object(declaration)
  }

  private static func entry(
    sections: JSONObject?,
    removed: [JSON],
    added: [JSON],
    timestamp: Int64
  ) -> EntryDraft {
    var message: JSONObject = ["role": "system", "content": ""]
    if let sections { message["sections"] = .object(sections) }
    if !removed.isEmpty { message["toolsRemoved"] = .array(removed.map { ["name": $0] }) }
    if !added.isEmpty { message["toolsAdded"] = .array(added) }
    message["timestamp"] = .int(timestamp)
    return EntryDraft(kind: "pi.system", model: [.object(message)])
  }
}
