public import PerdureModel
import PerdureSandbox

/// The files and processes that tools get.
///
/// Whatever is chosen, `Environment.confinement` says what it keeps tools and commands from.
public enum EnvironmentChoice: Sendable {
  /// The files of one folder, which tools see as `/`; there is no shell.
  ///
  /// The folder that a conversation has chosen is one in it. No path, link or rename leads outside.
  case directory(at: String)
  /// The machine's own files and shell, as this process may use them: nothing is confined.
  ///
  /// The folder that a conversation has chosen counts, else `cwd`, else that of this process.
  /// Commands get `variables`, or else those of this process but for what looks like a key.
  case local(cwd: String? = nil, shell: String? = nil, variables: [String: String]? = nil)
  /// An environment of the application's own, for all conversations.
  case custom(any Environment)
  /// What the closure makes for a conversation, each time one is needed; it should keep what it has
  /// made, and returns `nil` for conversations without one.
  case perConversation(EnvironmentMaker)

  /// Opens what can be opened now, so that a folder that is missing is told of at once.
  func maker() throws(PerdureError) -> EnvironmentMaker {
    switch self {
    case .directory(let folder):
      let whole = try TreeEnvironment.directory(at: folder)
      return { target in try target.cwd.map { try whole.working(in: $0) } ?? whole }
    case .local(let cwd, let shell, let variables):
      let whole = try TreeEnvironment.local(cwd: cwd, shell: shell, variables: variables)
      return { target in try target.cwd.map { try whole.working(in: $0) } ?? whole }
    case .custom(let environment): return { _ in environment }
    case .perConversation(let make): return make
    }
  }
}

/// Environments of this machine, for those who choose one per conversation.
public enum Environments {
  /// Opens a folder as an environment whose `/` it is, without a shell; `cwd` is a path in it.
  ///
  /// Throws `file` if it cannot be opened.
  public static func directory(
    at folder: String,
    cwd: String? = nil
  ) throws(PerdureError) -> any Environment {
    try TreeEnvironment.directory(at: folder, cwd: cwd)
  }

  /// Opens the machine's own files and shell, unconfined.
  ///
  /// Throws `file` if `cwd` cannot be opened.
  public static func local(
    cwd: String? = nil,
    shell: String? = nil,
    variables: [String: String]? = nil
  ) throws(PerdureError) -> any Environment {
    try TreeEnvironment.local(cwd: cwd, shell: shell, variables: variables)
  }
}
