/// What a sandbox lets file tools and commands see, reach and use.
///
/// Only the host makes one: no argument of a tool changes it. A machine that cannot give what it
/// requires gives an error and no weaker sandbox.
public struct SandboxPolicy: Sendable, Equatable {
  /// What can be done to the workspace.
  public enum Preset: String, Sendable, CaseIterable {
    /// It is read; commands and tools write scratch alone.
    case readOnly = "readonly"
    /// It is written, but for the protected paths.
    case workspaceWrite = "workspace"
    /// It is written, and nothing in it is protected.
    case full
  }

  /// How commands are confined.
  public enum Tier: String, Sendable, CaseIterable {
    /// Files, processes and a network of their own: what is not shown does not exist.
    case namespaces
    /// Rules of Landlock and a filter of calls on the machine's own tree, for containers without
    /// namespaces; weaker, as `docs/sandbox.md` says.
    case landlock
  }

  /// What there is of a network.
  public enum Network: Sendable, Equatable {
    case off
    /// Commands talk to each other on a loopback of their own; not in the tier `landlock`.
    case loopback
    /// What a gate of the host lets through: names, `*.` and a name for all below it, or addresses, each
    /// alone for the ports 80 and 443 or with one `:port`; not in the tier `landlock`.
    case allow([String])
    /// That of the machine, unconfined.
    case host
  }

  /// Something that can be required; a launch that cannot give it fails.
  public enum Guarantee: String, Sendable, CaseIterable {
    case fsRead, fsWrite, network, processes, signals, killTree
    case processLimit = "limits.pids"
    case memoryLimit = "limits.memory"
  }

  /// What one command may use; 0 is "any".
  public struct Limits: Sendable, Equatable {
    /// Bytes of all processes together.
    public var memory: UInt64 = 2 << 30
    /// Bytes of data of one process.
    public var processMemory: UInt64 = 3 << 29
    public var processes: UInt64 = 512
    /// Seconds of a processor for one process.
    public var processorSeconds: UInt64 = 480
    /// Seconds that a command has which names no timeout.
    public var seconds: Double = 120
    /// The most seconds that a command can ask for.
    public var mostSeconds: Double = 3_600
    /// Bytes of one file.
    public var fileSize: UInt64 = 1 << 30
    /// Bytes that stay free where commands write.
    public var diskFloor: UInt64 = 1 << 30
    public var descriptors: UInt64 = 1_024
    /// Bytes of the private `/tmp` and its like together; the tier `landlock` does not bound them.
    public var scratch: UInt64 = 256 << 20
    /// Bytes that a command may put out before it is ended.
    public var output: Int64 = 1 << 30
    /// Seconds between the request to end and the end.
    public var grace: Double = 2
    /// Commands in the background at once.
    public var sessions = 8
    /// Seconds that a command in the background has, and the most that it can ask for.
    public var sessionSeconds: Double = 14_400

    /// Makes the default limits.
    public init() {}
  }

  /// Ids of the machine that nobody has, as which commands run if the host is root.
  public struct ForeignUsers: Sendable, Equatable {
    public var first: UInt32
    public var count: UInt32

    /// Makes a range, by default one that no distribution hands out.
    public init(first: UInt32 = 0x7000_0000, count: UInt32 = 65_536) {
      self.first = first
      self.count = count
    }
  }

  /// The folder of the host on which tools and commands work.
  public var workspace: String
  public var preset: Preset
  public var tier: Tier
  public var network: Network
  /// What must be given; absent: all that the tier can give.
  public var requires: Set<Guarantee>?
  /// Further folders and files of the host that are written, each at its own path.
  public var writable: [String] = []
  /// Further folders and files of the host that are read, each at its own path.
  public var readable: [String] = []
  /// Paths in each written folder that stay as they are; the preset `full` ignores them.
  public var protected = SandboxPolicy.standardProtection
  /// Paths in the workspace that look empty; not in the tier `landlock`.
  public var hidden: [String] = []
  /// A folder of the host for caches, which only the sandbox may write; absent: they are scratch.
  public var cache: String?
  /// Variables of commands, beside those that every sandbox sets.
  public var variables: [String: String] = [:]
  public var limits = Limits()
  public var foreignUsers = ForeignUsers()
  /// Where the launcher is; absent: `PERDURE_SANDBOX`, or `perdure-sandbox` beside this program.
  public var launcher: String?

  /// Makes a policy.
  public init(
    workspace: String,
    preset: Preset = .workspaceWrite,
    tier: Tier = .namespaces,
    network: Network = .off
  ) {
    self.workspace = workspace
    self.preset = preset
    self.tier = tier
    self.network = network
  }

  /// Lets the workspace be read alone.
  public static func readOnly(_ workspace: String) -> SandboxPolicy {
    SandboxPolicy(workspace: workspace, preset: .readOnly)
  }

  /// Lets the workspace be written, but for what the host or others would trust.
  public static func workspaceWrite(_ workspace: String) -> SandboxPolicy {
    SandboxPolicy(workspace: workspace, preset: .workspaceWrite)
  }

  /// Lets the workspace be written without exception.
  public static func full(_ workspace: String) -> SandboxPolicy {
    SandboxPolicy(workspace: workspace, preset: .full)
  }

  /// What programs outside of the sandbox run or obey when they find it in a folder.
  public static let standardProtection = [
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".agents", ".claude",
    ".codex", ".cursor", ".idea", ".mcp.json",
    ".perdure", ".vscode",
  ]
}

extension PerdureError.Code {
  /// A sandbox cannot be had as the policy requires it; `details` has `tier`, and as far as the launcher
  /// came to it `stage`, `errno` and `detail`.
  public static let sandboxUnavailable: Self = "sandbox_unavailable"
  /// A policy of a sandbox is not one that can be.
  public static let sandboxPolicy: Self = "sandbox_policy"
}
