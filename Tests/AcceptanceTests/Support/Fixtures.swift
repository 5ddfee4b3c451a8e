/// Plugins and scripts of the tests.
enum Fixtures {
  private static let folder = Folder()

  /// The root of the package.
  static let root: String = {
    var path = #filePath.split(separator: "/").dropLast(4)
    path = path.filter { !$0.isEmpty }
    return "/" + path.joined(separator: "/")
  }()

  /// Compiles a C file, of the package if its path is none of its own, into a plugin, as the
  /// documentation says.
  static func compile(
    _ source: String,
    as name: String,
    in folder: Folder,
    _ flags: [String] = []
  )
    -> String
  {
    let plugin = folder.file(name)
    let result = Program.runTool(
      [
        "cc", "-shared", "-fPIC", "-fvisibility=hidden", "-I",
        root + "/Sources/CPerdureABI/include",
      ]
        + flags + ["-o", plugin, source.hasPrefix("/") ? source : root + "/" + source],
      in: folder
    )
    precondition(result.status == 0, result.error)
    return plugin
  }

  /// The example plugin.
  static let wordcount = compile(
    "examples/plugin-c/wordcount.c",
    as: "wordcount.so",
    in: folder
  )
  /// Its script.
  static let wordcountScript = root + "/examples/plugin-c/wordcount.faux.json"
  /// A tool that waits for a file, and may be run again.
  static let safeGate = compile("Tests/Fixtures/Acceptance/gate.c", as: "safe.so", in: folder)
  /// The same, but it must not be run again.
  static let unsafeGate = compile(
    "Tests/Fixtures/Acceptance/gate.c",
    as: "unsafe.so",
    in: folder,
    [#"-DREPLAY="unsafe""#]
  )

  /// A script with one turn of the given steps.
  static func script(_ steps: String, in folder: Folder) -> String {
    folder.write(#"{"turns": [{"steps": [\#(steps)]}]}"#, to: "script.json")
  }

  /// A script that calls the gate and says what it answered.
  static func gateScript(
    _ journal: Journal,
    in folder: Folder,
    says: String = "",
    mib: Int = 0
  )
    -> String
  {
    folder.write(
      """
      {"turns": [
        {"steps": [{"toolCall": {"id": "c", "name": "wait", "arguments":
          {"journal": "\(journal.path)", "gate": "\(folder.file("gate"))",
           "says": "\(says)", "mib": \(mib)}}}]},
        {"steps": [{"text": "It says: "}, {"toolResult": "c"}]}
      ]}
      """,
      to: "gate.json"
    )
  }
}
