import Foundation
import Perdure
import PerdureModel
import PerdureValue
import Testing

/// A folder of installed plugins, and versions of a plugin to put into it.
struct InstallBench {
  let folder: String
  let installation: PluginInstallation

  init() throws {
    folder = try Fixtures.folder()
    installation = PluginInstallation(folder: folder + "/plugins")
  }

  /// Choices that ask for no signature.
  static let unsigned: PluginChoices = {
    var choices = PluginChoices()
    choices.allowsUnsigned = true
    return choices
  }()

  /// A version of the plugin test.versions.
  static func plugin(_ version: String = "1.0.0", _ flags: [String] = []) throws -> String {
    try Fixtures.plugin("versions", flags: [#"-DVERSION="\#(version)""#] + flags)
  }

  /// A copy of a version in a folder of its own, for whoever signs or breaks it.
  static func copy(_ version: String = "1.0.0", _ flags: [String] = []) throws -> String {
    try Fixtures.copy(plugin(version, flags))
  }

  /// A copy that is signed.
  static func signed(_ version: String = "1.0.0", by signer: Signer) throws -> String {
    let path = try copy(version)
    try signer.sign(path)
    return path
  }

  /// Choices with the key of a signer.
  static func trusting(_ signer: Signer) throws -> PluginChoices {
    var choices = PluginChoices()
    choices.signerKey = try signer.key
    return choices
  }

  /// The error of an installation.
  func refusal(_ path: String, _ choices: PluginChoices = unsigned) async -> PerdureError? {
    do {
      try await installation.install(path, choices)
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  /// The error of an upgrade.
  func upgradeRefusal(_ path: String, _ choices: PluginChoices = unsigned) async -> PerdureError? {
    do {
      try await installation.upgrade(path, choices)
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  var lockPath: String { folder + "/plugins/plugins.lock.json" }

  /// The paths below the folder, but for the lock files.
  func files() throws -> [String] {
    try FileManager.default.subpathsOfDirectory(atPath: folder + "/plugins")
      .filter { $0.hasSuffix(".so") || $0.hasSuffix(".minisig") || $0.hasPrefix(".s") }.sorted()
  }
}

/// Plugins in their folder, without a host.
struct InstallationTests {
  @Test func `an installed plugin is listed with what is known of it`() async throws {
    let bench = try InstallBench()
    let change = try await bench.installation.install(
      InstallBench.plugin(),
      InstallBench.unsigned
    )
    #expect(change.registers == ["tool version", "tool hold", "tool remember"])
    let plugin = try #require(try bench.installation.list().first)
    #expect(plugin.id == "test.versions")
    #expect(plugin.version == "1.0.0")
    #expect(plugin.signer == nil)
    #expect(plugin.state == .enabled)
    #expect(try bench.files() == ["test.versions/1.0.0-\(plugin.digest.prefix(16))/plugin.so"])
  }

  @Test func `a folder is a plugin if one library lies in it`() async throws {
    let bench = try InstallBench()
    let source = URL(filePath: try InstallBench.copy()).deletingLastPathComponent().path
    try await bench.installation.install(source, InstallBench.unsigned)
    try Data().write(to: URL(filePath: source + "/other.so"))
    let error = await bench.upgradeRefusal(source)
    #expect(error?.message.contains("has 2 files with a name ending with .so") == true)
  }

  @Test func `an upgrade keeps the version before, and a rollback leads there and back`()
    async throws
  {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin("1.0.0"), InstallBench.unsigned)
    try await bench.installation.upgrade(InstallBench.plugin("1.1.0"), InstallBench.unsigned)
    try await bench.installation.upgrade(InstallBench.plugin("1.2.0"), InstallBench.unsigned)
    let plugin = try bench.installation.plugin("test.versions")
    #expect((plugin.version, plugin.previousVersion ?? "") == ("1.2.0", "1.1.0"))
    #expect(try bench.files().count == 2)
    #expect(try await bench.installation.rollback("test.versions").to == "1.1.0")
    #expect(try await bench.installation.rollback("test.versions").to == "1.2.0")
    #expect(try bench.installation.verify() == [])
  }

  @Test func `an older version is no upgrade unless that is wanted`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin("1.10.0"), InstallBench.unsigned)
    let error = await bench.upgradeRefusal(try InstallBench.plugin("1.9.0"))
    #expect(error?.message.contains("is older than 1.10.0") == true)
    var choices = InstallBench.unsigned
    choices.allowsDowngrade = true
    #expect(
      try await bench.installation.upgrade(InstallBench.plugin("1.9.0"), choices).to == "1.9.0"
    )
  }

  @Test func `an id is installed once`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin("1.0.0"), InstallBench.unsigned)
    let again = try await bench.installation.install(
      InstallBench.plugin("1.0.0"),
      InstallBench.unsigned
    )
    #expect(!again.hasChanged)
    let error = await bench.refusal(try InstallBench.plugin("1.1.0"))
    #expect(error?.message.contains("is installed already, as version 1.0.0") == true)
  }

  @Test func `a removed plugin leaves no files`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin(), InstallBench.unsigned)
    try await bench.installation.uninstall("test.versions")
    #expect(try bench.files() == [])
    #expect(try bench.installation.list().isEmpty)
    #expect(throws: PerdureError.self) { try bench.installation.plugin("test.versions") }
  }

  @Test func `a required or pinned plugin cannot go`() async throws {
    let bench = try InstallBench()
    var choices = InstallBench.unsigned
    choices.isRequired = true
    try await bench.installation.install(InstallBench.plugin(), choices)
    let error = await #expect(throws: PerdureError.self) {
      try await bench.installation.uninstall("test.versions")
    }
    #expect(error?.message == "the plugin test.versions is required and cannot be uninstalled")
    await #expect(throws: PerdureError.self) {
      try await bench.installation.disable("test.versions")
    }
    choices.isRequired = false
    try await bench.installation.enable("test.versions", choices)
    #expect(try await bench.installation.disable("test.versions").isEnabled == false)
  }

  // MARK: Signers

  @Test func `a plugin without a signature needs to be allowed`() async throws {
    let bench = try InstallBench()
    let error = await bench.refusal(try InstallBench.plugin(), PluginChoices())
    #expect(error?.message.hasSuffix("is not signed") == true)
    #expect(error?.hint?.contains("--allow-unsigned") == true)
  }

  @Test func `the first signer of an id is trusted and remembered`() async throws {
    let (bench, signer) = (try InstallBench(), try Signer())
    let first = try await bench.installation.install(
      InstallBench.signed(by: signer),
      InstallBench.trusting(signer)
    )
    #expect(first.isFirstUse)
    // The key is known now.
    let second = try await bench.installation.upgrade(InstallBench.signed("1.1.0", by: signer))
    #expect(!second.isFirstUse)
    #expect(second.signer == first.signer)
  }

  @Test func `a key that lies beside the plugin is taken if none is known`() async throws {
    let (bench, signer) = (try InstallBench(), try Signer())
    let path = try InstallBench.signed(by: signer)
    let error = await bench.refusal(path, PluginChoices())
    #expect(error?.message.contains("whose key is not known") == true)
    try FileManager.default.copyItem(atPath: signer.keyPath, toPath: path + ".pub")
    #expect(try await bench.installation.install(path).isFirstUse)
  }

  @Test func `a changed signer is refused until that is said`() async throws {
    let (bench, signer, other) = (try InstallBench(), try Signer(), try Signer())
    try await bench.installation.install(
      InstallBench.signed(by: signer),
      InstallBench.trusting(signer)
    )
    let path = try InstallBench.signed("1.1.0", by: other)
    for choices in [PluginChoices(), try InstallBench.trusting(other)] {
      let error = await bench.upgradeRefusal(path, choices)
      #expect(error?.message.contains("and test.versions belongs to the signer") == true)
      #expect(error?.hint?.contains("--replace-signer") == true)
    }
    var choices = try InstallBench.trusting(other)
    choices.replacesSigner = true
    try await bench.installation.upgrade(path, choices)
    #expect(try bench.installation.verify() == [])
  }

  @Test func `a rollback trusts the signer of the version that it leads to`() async throws {
    let (bench, signer, other) = (try InstallBench(), try Signer(), try Signer())
    try await bench.installation.install(
      InstallBench.signed(by: signer),
      InstallBench.trusting(signer)
    )
    var choices = try InstallBench.trusting(other)
    choices.replacesSigner = true
    try await bench.installation.upgrade(InstallBench.signed("1.1.0", by: other), choices)
    try await bench.installation.rollback("test.versions")
    let path = try InstallBench.signed("1.2.0", by: signer)
    #expect(await bench.upgradeRefusal(path, try InstallBench.trusting(signer)) == nil)
  }

  @Test(arguments: [Isolation?.none, .auto, .runner, .inProcess])
  func `a plugin for the process of the host is refused if it would get another one`(
    isolation: Isolation?
  ) async throws {
    let bench = try InstallBench()
    let path = try InstallBench.copy("1.0.0", [#"-DMODE="inProcess""#])
    var choices = InstallBench.unsigned
    choices.isolation = isolation
    let error = await bench.refusal(path, choices)
    if isolation == .inProcess {
      #expect(error == nil)
    } else {
      #expect(error?.hint == "give --isolation in-process if you trust it")
    }
  }

  @Test func `a signer is remembered when the plugin is gone`() async throws {
    let (bench, signer, other) = (try InstallBench(), try Signer(), try Signer())
    try await bench.installation.install(
      InstallBench.signed(by: signer),
      InstallBench.trusting(signer)
    )
    try await bench.installation.uninstall("test.versions")
    let error = await bench.refusal(
      try InstallBench.signed(by: other),
      try InstallBench.trusting(other)
    )
    #expect(error?.message.contains("belongs to the signer") == true)
  }

  @Test func `a signed plugin does not become one without a signature`() async throws {
    let (bench, signer) = (try InstallBench(), try Signer())
    try await bench.installation.install(
      InstallBench.signed(by: signer),
      InstallBench.trusting(signer)
    )
    let error = await bench.upgradeRefusal(try InstallBench.copy("1.1.0"))
    #expect(error?.message.contains("is not signed, and test.versions belongs to") == true)
  }

  @Test func `a signature of another file is refused, also if none were needed`() async throws {
    let (bench, signer) = (try InstallBench(), try Signer())
    let path = try InstallBench.signed(by: signer)
    let other = try InstallBench.copy("1.1.0")
    try FileManager.default.copyItem(atPath: path + ".minisig", toPath: other + ".minisig")
    var choices = try InstallBench.trusting(signer)
    choices.allowsUnsigned = true
    let error = await bench.refusal(other, choices)
    #expect(error?.message.hasSuffix("has a signature that does not fit it or its comment") == true)
  }

  @Test(arguments: ["plugin:other.id", "version:9.9.9", "sha256:00"])
  func `a trusted comment must tell the truth`(comment: String) async throws {
    let (bench, signer) = (try InstallBench(), try Signer())
    let path = try InstallBench.copy()
    try signer.sign(path, comment: "timestamp:1 \(comment)")
    let error = await bench.refusal(path, try InstallBench.trusting(signer))
    #expect(error?.message.contains("was signed as one with the") == true)
  }

  @Test func `a trusted comment that tells the truth is fine`() async throws {
    let (bench, signer) = (try InstallBench(), try Signer())
    let path = try InstallBench.copy()
    try signer.sign(path, comment: "plugin:test.versions version:1.0.0")
    try await bench.installation.install(path, InstallBench.trusting(signer))
  }

  // MARK: Files that are refused

  @Test func `a truncated file is refused`() async throws {
    let bench = try InstallBench()
    let path = try Fixtures.copy(InstallBench.plugin()) { $0.removeLast($0.count / 2) }
    #expect(await bench.refusal(path)?.code == .pluginRefused)
    #expect(try bench.installation.list().isEmpty)
  }

  @Test func `a manifest that says other than the note is refused`() async throws {
    let bench = try InstallBench()
    let lying = #"{"manifest":1,"id":"test.plain","version":"1.0.0","runtime":"rust"}"#
    let error = await bench.refusal(try Fixtures.lifecycle(manifest: lying))
    #expect(error?.message.contains("says runtime c in its note and rust in its manifest") == true)
  }

  @Test func `a plugin that exports too much is refused`() async throws {
    let bench = try InstallBench()
    let source = bench.folder + "/more.c"
    try Data(#"__attribute__((visibility("default"))) int more(void) { return 1; }"#.utf8)
      .write(to: URL(filePath: source))
    let error = await bench.refusal(try InstallBench.plugin("1.0.0", [source]))
    #expect(error?.message.contains("must not be installed: it exports 1 symbols besides") == true)
  }

  @Test func `a plugin that needs a library of its own is refused`() async throws {
    let bench = try InstallBench()
    let library = try Self.library("libhelper.so", in: bench.folder)
    let error = await bench.refusal(
      try InstallBench.plugin("1.0.0", ["-Wl,--no-as-needed", library])
    )
    #expect(error?.message.contains("it needs libhelper.so, which other machines may lack") == true)
  }

  @Test func `a development build of SwiftPM is refused with the reason`() async throws {
    let bench = try InstallBench()
    let library = try Self.library("libswiftCore.so", in: bench.folder)
    let error = await bench.refusal(
      try InstallBench.plugin(
        "1.0.0",
        ["-Wl,--no-as-needed", library, "-Wl,-rpath,/opt/swift/usr/lib/swift/linux"]
      )
    )
    #expect(error?.message.contains("is a development build of SwiftPM") == true)
    #expect(error?.hint?.contains("--plugin") == true)
  }

  /// Makes an empty library.
  private static func library(_ name: String, in folder: String) throws -> String {
    let source = folder + "/empty.c"
    try Data("int nothing;".utf8).write(to: URL(filePath: source))
    let path = "\(folder)/\(name)"
    try Command.run(["cc", "-shared", "-fPIC", "-Wl,-soname,\(name)", "-o", path, source])
    return path
  }

  @Test func `two plugins with one tool name are refused unless one says that it overrides`()
    async throws
  {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin(), InstallBench.unsigned)
    let other = #"-DID="test.other""#
    let error = await bench.refusal(try InstallBench.plugin("1.0.0", [other]))
    #expect(
      error?.message.hasSuffix("has a tool version, and so has the plugin test.versions") == true
    )
    #expect(
      await bench.refusal(try InstallBench.plugin("1.0.0", [other, #"-DOVERRIDES="true""#])) == nil
    )
  }

  // MARK: The lock file and the files

  @Test(arguments: [
    "", "{", "[]", #"{"version": 1}"#, #"{"version": 1, "plugins": [], "signers": []}"#,
    #"{"version": 1, "plugins": [{}], "signers": {}}"#,
    #"{"version": 1, "plugins": [], "signers": {"a.b": "RWS"}}"#,
    #"{"version": 1, "plugins": [{"id": "../x", "version": "1.0.0"}], "signers": {}}"#,
  ])
  func `a damaged lock file is one clear sentence`(text: String) async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin(), InstallBench.unsigned)
    try Data(text.utf8).write(to: URL(filePath: bench.lockPath))
    let error = #expect(throws: PerdureError.self) { try bench.installation.list() }
    #expect(error?.code == .invalidConfiguration)
    #expect(error?.message == "the lock file \(bench.lockPath) is damaged")
    #expect(error?.cause != nil)
    // It is not written over.
    #expect(await bench.refusal(try InstallBench.plugin())?.code == .invalidConfiguration)
    #expect(try String(contentsOfFile: bench.lockPath, encoding: .utf8) == text)
  }

  @Test func `a lock file of a newer version is named as such`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin(), InstallBench.unsigned)
    try Data(#"{"version": 2, "more": true}"#.utf8).write(to: URL(filePath: bench.lockPath))
    let error = #expect(throws: PerdureError.self) { try bench.installation.list() }
    #expect(error?.message.contains("is of version 2, which this perdure does not know") == true)
  }

  @Test func `a folder that others may write to is refused`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin(), InstallBench.unsigned)
    try FileManager.default.setAttributes(
      [.posixPermissions: 0o777],
      ofItemAtPath: bench.folder + "/plugins"
    )
    let error = #expect(throws: PerdureError.self) { try bench.installation.list() }
    #expect(error?.message.contains("can be written by others") == true)
  }

  @Test func `a file that is not the installed one is found and can be put right`() async throws {
    let (bench, signer) = (try InstallBench(), try Signer())
    let source = try InstallBench.signed(by: signer)
    try await bench.installation.install(source, InstallBench.trusting(signer))
    let path = try bench.installation.plugin("test.versions").path
    #expect(try bench.installation.verify() == [])
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.copyItem(atPath: InstallBench.plugin("6.6.6"), toPath: path)
    #expect(try bench.installation.verify().map(\.message) == ["its library is another file"])
    try await bench.installation.install(source)
    #expect(try bench.installation.verify() == [])
    try FileManager.default.removeItem(atPath: path)
    #expect(try bench.installation.verify("test.versions").count == 1)
  }

  @Test func `a signature that is gone or of another file is found`() async throws {
    let (bench, signer) = (try InstallBench(), try Signer())
    try await bench.installation.install(
      InstallBench.signed(by: signer),
      InstallBench.trusting(signer)
    )
    let path = try bench.installation.plugin("test.versions").path + ".minisig"
    let other = try InstallBench.signed("1.1.0", by: signer)
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.copyItem(atPath: other + ".minisig", toPath: path)
    #expect(
      try bench.installation.verify().map(\.message) == ["its signature does not fit it"]
    )
  }

  @Test func `a rollback to a damaged version is refused`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin("1.0.0"), InstallBench.unsigned)
    let path = try bench.installation.plugin("test.versions").path
    try await bench.installation.upgrade(InstallBench.plugin("1.1.0"), InstallBench.unsigned)
    try FileManager.default.removeItem(atPath: path)
    let error = await #expect(throws: PerdureError.self) {
      try await bench.installation.rollback("test.versions")
    }
    #expect(error?.message.contains("is not what was installed") == true)
    #expect(try bench.installation.plugin("test.versions").version == "1.1.0")
  }

  @Test func `many who install at once do not lose each other's work`() async throws {
    let bench = try InstallBench()
    let paths = try (0..<8).map { number in
      try InstallBench.plugin(
        "1.0.0",
        [#"-DID="test.number\#(number)""#, #"-DPREFIX="t\#(number)_""#]
      )
    }
    try await withThrowingTaskGroup { group in
      for path in paths {
        group.addTask {
          let installation = PluginInstallation(folder: bench.folder + "/plugins")
          try await installation.install(path, InstallBench.unsigned)
        }
      }
      try await group.waitForAll()
    }
    #expect(try bench.installation.list().count == 8)
    #expect(try bench.installation.verify() == [])
    #expect(try bench.files().count == 8)
  }
}
