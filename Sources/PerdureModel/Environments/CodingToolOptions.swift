/// Choices about the coding tools.
public struct CodingToolOptions: Sendable {
  /// A command before it runs.
  public struct Execution: Sendable {
    public var command: String
    public var cwd: String?
    public var variables: [String: String]
    public var inheritsVariables: Bool

    /// Makes a command as it runs if nobody changes it.
    public init(
      command: String,
      cwd: String? = nil,
      variables: [String: String] = [:],
      inheritsVariables: Bool = true
    ) {
      self.command = command
      self.cwd = cwd
      self.variables = variables
      self.inheritsVariables = inheritsVariables
    }
  }

  /// An image that is to be shown to a model.
  public struct Image: Sendable {
    public var mimeType: String
    public var bytes: [UInt8]
    /// In pixels, as far as the file says so.
    public var width: Int?
    public var height: Int?
    /// What the model is told about it, such as a scale.
    public var note: String?

    /// Makes an image.
    public init(
      mimeType: String,
      bytes: [UInt8],
      width: Int? = nil,
      height: Int? = nil,
      note: String? = nil
    ) {
      self.mimeType = mimeType
      self.bytes = bytes
      self.width = width
      self.height = height
      self.note = note
    }
  }

  /// Whether files outside the working folder of the conversation are refused, also behind links.
  public var staysInWorkingFolder = false
  /// A line that comes before every command.
  public var commandPrefix: String?
  /// Changes a command before it runs, or refuses it by throwing.
  public var prepareCommand: (@Sendable (Execution, ToolCall) async throws -> Execution)?
  /// Makes images of other kinds or sizes fit; without it only small PNG, JPEG, GIF and WebP are
  /// shown.
  public var processImage: (@Sendable (Image) async throws -> Image)?

  /// Makes the default choices.
  public init() {}
}
