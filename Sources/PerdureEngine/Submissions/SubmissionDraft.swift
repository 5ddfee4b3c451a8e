package import PerdureModel
package import PerdureValue

/// A durable request that is to be made.
package enum SubmissionDraft: Sendable {
  /// User content, a string or content items, that must be answered.
  case input(content: JSON, whenBusy: WhenBusy = .followUp, entry: InputEntry? = nil)
  /// A passive entry.
  case write(EntryDraft)

  var kind: SubmissionRecord.Kind {
    switch self {
    case .input: .input
    case .write: .write
    }
  }

  /// The entry of a write.
  var write: EntryDraft? {
    if case .write(let entry) = self { return entry }
    return nil
  }

  /// Whether it is a write that changes nothing of what a model is shown.
  var isDisplayOnly: Bool { write?.isDisplayOnly ?? false }

  /// Throws `invalidInput` for what could not be placed later.
  ///
  /// What is queued is placed by a run, which must not fail because of it.
  func check() throws {
    switch self {
    case .write(let entry): try entry.check()
    case .input(let content, _, let entry):
      try Self.check(content: content)
      guard let entry else { return }
      let kind = entry.kind.string
      guard !kind.isEmpty, !kind.hasPrefix("pi.") else {
        throw PerdureError(
          .invalidInput,
          "an input cannot be placed as an entry of the kind '\(kind)'",
          hint: "give a kind that is not empty and does not start with 'pi.'"
        )
      }
    }
  }

  /// Content is stored and sent as it is, so its shape is checked where it comes in.
  private static func check(content: JSON) throws {
    func isItem(_ item: JSON) -> Bool {
      switch item["type"]?.text {
      case "text": item["text"]?.string != nil
      case "image": item["data"]?.string != nil && item["mimeType"]?.string != nil
      default: false
      }
    }
    if content.string != nil { return }
    guard let items = content.array, !items.isEmpty, items.allSatisfy(isItem) else {
      throw PerdureError(
        .invalidInput,
        "the content of a submission is neither a string nor a list of text and image items",
        hint: "give a string, or items with the type 'text' or 'image'"
      )
    }
  }
}
