public import PerdureModel
import PerdureValue

/// Choices about the coding tools.
public struct CodingToolOptions: Sendable {
  /// A command before it runs.
  public struct Execution: Sendable {
    public var command: String
    public var cwd: String?
    public var variables: [String: String]
    public var inheritsVariables: Bool
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

extension Extension {
  /// The extension `coding-tools`, with which a model works on the files of its environment: `read`,
  /// `write`, `edit`, `ls`, `grep` and `glob`; with `shell` also `bash`, for environments that run
  /// commands.
  ///
  /// All of them use the environment of the conversation alone, and fail where there is none.
  public static func codingTools(
    shell: Bool,
    _ options: CodingToolOptions = CodingToolOptions()
  ) -> Extension {
    var tools = [
      ReadTool(options: options).tool, WriteTool(options: options).tool,
      EditTool(options: options).tool, ListTool(options: options).tool,
      GrepTool(options: options).tool, GlobTool(options: options).tool,
    ]
    if shell { tools.append(BashTool(options: options).tool) }
    return Extension(name: "coding-tools", tools: tools)
  }
}

/// The most that a call shows of a file or an output.
enum ShownLimits {
  static let maxBytes = 51_200
  static let maxLines = 2_000
}

extension ToolCall {
  /// The environment of the call; throws where there is none.
  func requireEnvironment() throws -> any Environment {
    guard let env else {
      throw PerdureError(
        .invalidConfiguration,
        "this conversation has no environment, so there are no files to work with",
        hint: "open the store with one"
      )
    }
    return env
  }
}
