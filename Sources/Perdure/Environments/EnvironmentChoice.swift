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
  /// A folder of this machine in a sandbox: what the policy does not show is not there, for tools and for
  /// commands.
  ///
  /// The folder that a conversation has chosen is one in the sandbox. All conversations share its scratch
  /// files and its loopback; `perConversation` with `Environments.sandbox` gives each its own. One that
  /// was ended from outside is built again.
  case sandbox(SandboxPolicy)
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
    case .sandbox(let policy):
      let slot = try SandboxSlot(policy)
      return { target in
        let whole = try await slot.environment()
        return try target.cwd.map { try whole.working(in: $0) } ?? whole
      }
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

  /// Builds a sandbox on a folder.
  ///
  /// `cwd` is a path in it, by default the workspace. It ends with the last reference.
  /// Throws `sandbox_policy` for a policy that cannot be, and `sandbox_unavailable` with the stage, the
  /// number of the error and a remedy where this machine cannot give what it requires.
  public static func sandbox(
    _ policy: SandboxPolicy,
    cwd: String? = nil
  ) throws(PerdureError) -> any Environment {
    try TreeEnvironment.sandbox(policy, cwd: cwd)
  }

  /// Opens the machine's own files and shell, unconfined.
  ///
  /// Commands get `variables`, by default those of this process but for what looks like a key, and
  /// never those of `names`.
  /// Throws `file` if `cwd` cannot be opened.
  public static func local(
    cwd: String? = nil,
    shell: String? = nil,
    variables: [String: String]? = nil,
    withholding names: Set<String> = []
  ) throws(PerdureError) -> any Environment {
    try TreeEnvironment.local(
      cwd: cwd,
      shell: shell,
      variables: variables,
      withholding: names
    )
  }
}
