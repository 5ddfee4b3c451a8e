public import PerdureModel
package import PerdureValue

extension EntryRecord {
  /// What its messages say: thinking, calls and pictures are left out.
  public var text: String { (model ?? []).map { Self.text(ofContent: $0["content"]) }.joined() }

  /// Returns the text of a message's content, which is a string or content items.
  package static func text(ofContent content: JSON?) -> String {
    if let text = content?.text { return text }
    return (content?.array ?? [])
      .filter { $0["type"] == "text" }
      .compactMap { $0["text"]?.text }
      .joined()
  }
}
