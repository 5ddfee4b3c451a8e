/// A question for a person about a call.
public struct ApprovalQuestion: Sendable, Equatable {
  /// One answer that can be chosen.
  public struct Choice: Sendable, Equatable {
    public var id: String
    public var label: String
    /// Whether the call is made if this is chosen.
    public var allows: Bool

    /// Makes a choice.
    public init(id: String, label: String, allows: Bool) {
      self.id = id
      self.label = label
      self.allows = allows
    }
  }

  /// Tells questions about one call apart.
  public var key: String
  /// The question in one line.
  public var title: String
  public var body: String?
  /// Absent: yes and no.
  public var choices: [Choice]?
  /// After how long without an answer the call is denied; absent: never.
  public var expires: Duration?

  /// Makes a question.
  public init(
    key: String,
    title: String,
    body: String? = nil,
    choices: [Choice]? = nil,
    expires: Duration? = nil
  ) {
    self.key = key
    self.title = title
    self.body = body
    self.choices = choices
    self.expires = expires
  }
}
