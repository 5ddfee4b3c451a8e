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
    let host = try SandboxHost(policy, resolve)
    let plan = host.plan
    let tree = FileTree(
      root: host.root,
      // Below the machine's own root, too: no magic link of this process is followed.
      reach: .root,
      protection: ProtectedPaths(plan.protected),
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
    _ = Readiness.wait(bell.descriptor, until: nil)
    try result.withLock { $0 }?.get()
  }
}

/// The sandbox of a policy, which is built again when it was ended from outside.
package final class SandboxSlot: Sendable {
  private let policy: SandboxPolicy
  private let current: Mutex<TreeEnvironment>

  /// Builds it; blocks, and throws as `TreeEnvironment.sandbox` does.
  package init(_ policy: SandboxPolicy) throws(PerdureError) {
    self.policy = policy
    current = Mutex(try TreeEnvironment.sandbox(policy))
  }

  /// The environment as it is now.
  package func environment() throws(PerdureError) -> TreeEnvironment {
    let result = current.withLock { held in
      Result { () throws(PerdureError) in
        if !held.isAlive { held = try TreeEnvironment.sandbox(policy) }
        return held
      }
    }
    return try result.get()
  }

  /// Ends it with all in it.
  package func close() async {
    let held = current.withLock { $0 }
    await held.close()
  }
}
