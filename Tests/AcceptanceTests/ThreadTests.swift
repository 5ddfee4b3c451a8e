import Glibc
import Testing

/// The threads of a program, on which its tasks run.
@Suite struct ThreadTests {
  private let folder = Folder()

  @Test(
    .timeLimit(.minutes(2)),
    arguments: [
      ("mixed", "2000 2000 1000"), ("blocked", "released"), ("nested", "4096"), ("escalate", "7"),
    ]
  )
  func `every kind of task comes to its end`(kind: String, sum: String) {
    let result = Program.runTool([Program.products + "/TaskProcess", kind], in: folder)
    #expect(result.status == 0)
    #expect(result.output == sum + "\n")
  }

  @Test(.timeLimit(.minutes(2)))
  func `a host that has nothing to do wakes up for nothing`() throws {
    let output = Journal(in: folder, named: "served")
    let script = folder.write(#"{"turns": [{"steps": [{"text": "Hi."}]}]}"#, to: "hi.json")
    let store = folder.file("s.sqlite")
    let host = Program.start(
      ["serve", "--store", store, "--faux", script],
      in: folder,
      output: output
    )
    _ = try #require(output.line())
    #expect(Program.run(["run", "--store", store, "Hello"], in: folder).status == 0)
    // It rests as soon as two looks see the same; what woke every second would never get there.
    var before = waits(host.pid)
    while true {
      usleep(2_500_000)
      let now = waits(host.pid)
      if now == before { break }
      before = now
    }
    #expect(before?.isEmpty == false)
    #expect(Program.run(["close", "--store", store], in: folder).status == 0)
    #expect(host.wait().status == 0)
  }

  /// How often each thread has stopped to wait.
  private func waits(_ process: pid_t) -> [String: String]? {
    let tasks = "/proc/\(process)/task"
    guard let folder = unsafe opendir(tasks) else { return nil }
    defer { unsafe closedir(folder) }
    var waits: [String: String] = [:]
    while let entry = unsafe readdir(folder) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
        unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name.hasPrefix(".") { continue }
      let bytes = Folder.bytes(at: "\(tasks)/\(name)/status")
      waits[name] = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        .first { $0.hasPrefix("voluntary_ctxt_switches:") }.map(String.init)
    }
    return waits
  }
}
