import Perdure
import PerdureModel
import PerdureValue

/// `perdure plugin dev`: a plugin that is rebuilt, checked, reloaded and replayed at each change.
enum PluginDevVerb {
  static let verb = Verb(
    name: "plugin dev",
    summary: "build, check, reload and replay a plugin at each change of its sources",
    options: [
      Option(name: "once", help: "do all that once, and end"),
      Option(name: "update", help: "with --once: accept what comes of the scripts"),
      Option(
        name: "isolation",
        value: "WHERE",
        help: "in-process or runner",
        standard: "runner"
      ),
      Option(
        name: "store",
        value: "PATH",
        help: "let 'perdure run --store PATH' give prompts to the plugin",
        standard: "a store in memory"
      ),
      Option(
        name: "timeout",
        value: "SECONDS",
        help: "how long one script may take",
        standard: "60"
      ),
      Option(name: "json", help: "write events as JSON, one a line"),
    ],
    positionals: ["DIR"],
    notes: """
      DIR has a program 'build', which makes one .so in the folder that is its argument, and
      scripts NAME.faux.json. A build that fails, fails the quick groups of 'plugin check'
      (\(DevCycle.groups.joined(separator: ", "))) or cannot be loaded leaves what runs as it is.
      The first replay is compared with NAME.expected.txt, each later one with the one before.
      With --once the exit status is 1 if it is not built or not as expected, 5 if refused.
      """,
    hasEvents: true,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let folder = try folder(arguments.positionals.first ?? "")
    let seconds = try arguments.number("timeout", in: 1...86_400) ?? 60
    let isolation = try arguments.choice("isolation", Isolation.self) ?? .auto
    let address = try arguments.has("store") ? StoreAddress(arguments) : .memory
    guard arguments.has("once") || !arguments.has("update") else {
      throw UsageError.make("--update needs --once", "give both")
    }
    let watch = try FolderWatch(path: folder)
    try HostText.guardOutput()
    try SignalWatch.watchPlugins(reporter)
    let temporary = try HostText.makeTemporaryFolder()
    let host: DevHost
    do {
      host = try await DevHost.open(
        address,
        folder: temporary,
        scripts: try PluginScript.all(in: folder, stem: nil),
        isolation: isolation,
        reporter: reporter
      )
    } catch {
      HostText.removeFolder(temporary)
      throw error
    }
    reporter.header(["folder": .string(folder), "store": .string(address.text)])
    let cycle = DevCycle(
      folder: folder,
      output: temporary + "/build",
      host: host,
      watch: watch,
      limit: .seconds(seconds),
      updates: arguments.has("update"),
      reporter: reporter
    )
    let status: ExitStatus
    do { status = try await follow(cycle, once: arguments.has("once"), reporter) } catch {
      let error = await host.host.close(after: error)
      HostText.removeFolder(temporary)
      throw error
    }
    await host.host.close()
    HostText.removeFolder(temporary)
    reporter.end(status)
  }

  private static func folder(_ path: String) throws -> String {
    guard let folder = HostText.fullPath(path), HostText.kind(ofPath: folder) == .folder else {
      throw PerdureError(
        .notFound,
        "there is no folder \(path)",
        hint: "write one with `perdure plugin new NAME --lang LANGUAGE`"
      )
    }
    guard HostText.kind(ofPath: folder + "/build") == .file else {
      throw PerdureError(
        .notFound,
        "there is no program 'build' in \(folder)",
        hint: "write one that makes one .so in the folder that is its argument"
      )
    }
    return folder
  }

  // MARK: The loop

  private enum Event: Sendable {
    case signal(Int32)
    case cycled(Result<DevCycle.End, any Error>, DevCycle.Memory)
    case changed(PerdureError?)
  }

  private static func follow(
    _ cycle: DevCycle,
    once: Bool,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let (events, news) = AsyncStream<Event>.makeStream()
    SignalWatch.handle { [isEnding = cycle.isEnding] signal in
      isEnding.set()
      news.yield(.signal(signal))
      HostCommand.end()
    }
    func begin(_ memory: DevCycle.Memory) -> Task<Void, Never> {
      Task {
        var memory = memory
        do {
          let end = try await cycle.run(&memory)
          news.yield(.cycled(.success(end), memory))
        } catch { news.yield(.cycled(.failure(error), memory)) }
      }
    }
    var memory = DevCycle.Memory()
    var work = begin(memory)
    defer { work.cancel() }
    for await event in events {
      switch event {
      case .signal(let signal): return ExitStatus(signal: signal)
      // The signal that cut the cycle off comes next.
      case .cycled where cycle.isEnding.isSet: continue
      case .cycled(let result, let newer):
        memory = newer
        let end = try result.get()
        if once { return end.status }
      case .changed(let error?): throw error
      case .changed: break
      }
      // What changed while a cycle ran is found here, because nothing tells of it any more.
      if memory.isOld(beside: try cycle.watch.files()) {
        if !reporter.isJSON { reporter.print("") }
        work = begin(memory)
        continue
      }
      if case .cycled = event, !reporter.isJSON {
        reporter.print("watching \(cycle.folder); Ctrl-C ends")
      }
      if case .cycled = event { reporter.event("watching", [:]) }
      work = Task {
        do throws(PerdureError) {
          try await cycle.watch.change()
          news.yield(.changed(nil))
        } catch { news.yield(.changed(error)) }
      }
    }
    return .ok
  }
}
