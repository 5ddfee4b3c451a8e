package import PerdureModel
import Synchronization

extension TreeEnvironment {
  /// Builds a sandbox as an environment: tools and commands see the same files; blocks.
  ///
  /// `cwd` is a path in it, by default the workspace. Throws `sandbox_policy` for a policy that cannot be,
  /// and `sandbox_unavailable` with stage, error and remedy where the machine cannot give it.
  /// `resolve` looks up the hosts of a network by names.
  package static func sandbox(
    _ policy: SandboxPolicy,
    cwd: String? = nil,
    resolve: @escaping NetworkResolver = { NetworkAddress.resolve($0) }
  ) throws(PerdureError) -> TreeEnvironment {
    try sandbox(SandboxHost(policy, resolve), cwd)
  }

  /// Makes an environment of a sandbox that was built; blocks.
  static func sandbox(
    _ host: SandboxHost,
    _ cwd: String?
  ) throws(PerdureError) -> TreeEnvironment {
    let plan = host.plan
    let tree = FileTree(
      root: host.root,
      // Below the machine's own root, too: no magic link of this process is followed.
      reach: .root,
      protection: ProtectedPaths(plan.protected),
      hidden: ProtectedPaths(plan.hidden),
      isSandbox: true
    )
    let threads = host.preparation.map { WorkThreads($0) } ?? .shared
    do throws(FileError) {
      try prepare(host, tree, threads)
      let environment = TreeEnvironment(
        id: "sandbox:\(String(UInt64.random(in: 0 ... .max), radix: 36))",
        tree: tree,
        cwd: try cwd.map { (text) throws(FileError) in
          try VirtualPath(text, from: plan.workspace.inside)
        } ?? plan.workspace.inside,
        home: plan.home,
        temporaryFolder: plan.temporaryFolder,
        commands: CommandRunner(commands(host)),
        confinement: plan.confinement(host.report),
        threads: threads,
        sandbox: host
      )
      return environment
    } catch {
      throw PerdureError(
        .sandboxUnavailable,
        "the files of the sandbox cannot be used: \(error.message)",
        hint: error.hint
      )
    }
  }

  private static func commands(_ host: SandboxHost) -> CommandRunner.Configuration {
    let limits = host.plan.policy.limits
    let outputs = host.outputs
    return CommandRunner.Configuration(
      variables: host.plan.variables,
      createSpill: { () throws(FileError) in try outputs.create() },
      start: { (launch, seconds) throws(ExecutionError) in try host.start(launch, seconds) },
      standardSeconds: limits.seconds > 0 ? limits.seconds : nil,
      mostSeconds: limits.mostSeconds > 0 ? limits.mostSeconds : nil,
      patience: min(limits.grace, 600) + 5,
      mostOutput: limits.output > 0 ? limits.output : nil,
      sessions: sessions(host)
    )
  }

  private static func sessions(_ host: SandboxHost) -> SessionRegistry.Configuration? {
    let limits = host.plan.policy.limits
    guard limits.sessions > 0 else { return nil }
    return SessionRegistry.Configuration(
      start: { (launch, options, seconds) throws(ExecutionError) in
        try host.start(launch, seconds, hasInput: options.terminal == nil, options.terminal)
      },
      most: limits.sessions,
      bounds: BackgroundSession.Bounds(
        seconds: limits.sessionSeconds > 0 ? limits.sessionSeconds : nil,
        output: limits.output > 0 ? limits.output : nil,
        grace: limits.grace
      )
    )
  }

  /// Nanoseconds after which a disk is taken for one that does not answer.
  private static let patience: Int64 = 60_000_000_000

  /// Makes the home of commands, on a thread as it will serve files.
  private static func prepare(
    _ host: SandboxHost,
    _ tree: FileTree,
    _ threads: WorkThreads
  ) throws(FileError) {
    let plan = host.plan
    let result = Mutex<Result<Void, FileError>?>(nil)
    guard let bell = try? Bell(),
      threads.start({ failure in
        let made = Result { () throws(FileError) in
          if let failure { throw WorkThreads.unprepared(failure) }
          try tree.createFolder(plan.home, recursive: true)
          _ = try tree.findFolder(plan.workspace.inside)
        }
        result.withLock { $0 = made }
        bell.ring()
      })
    else { throw FileError(.unknown, "no thread could be started for them") }
    guard Readiness.has(bell.descriptor, by: monotonicNanoseconds() + patience),
      let made = result.withLock({ $0 })
    else { throw FileError(.unknown, "the thread that prepares them took too long") }
    try made.get()
  }
}
