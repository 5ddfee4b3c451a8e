// swift-tools-version: 6.2
import PackageDescription

// One block per target, by layer and then by name. Which target may import what is checked by
// Tests/ArchitectureTests; the table there and the map in README.md say the same.

let base: [SwiftSetting] = [
  .strictMemorySafety(),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Targets without a folder for unsafe code: a pointer does not compile there.
let safe = base + [.treatWarning("StrictMemorySafety", as: .error)]

let package = Package(
  name: "perdure",
  products: [
    .executable(name: "perdure", targets: ["PerdureCLI"]),
    .executable(name: "perdure-bench", targets: ["PerdureBench"]),
    .executable(name: "perdure-runner", targets: ["PerdureRunner"]),
    .library(name: "Perdure", targets: ["Perdure"]),
    .library(name: "PerdurePluginKit", targets: ["PerdurePluginKit"]),
    .library(name: "PerdureTestKit", targets: ["PerdureTestKit"]),
  ],
  targets: [
    // C
    .target(name: "CPerdureABI"),
    .target(name: "CPerdureCheck", dependencies: ["CPerdureABI"]),
    // Apart from the rest of C, because the runner must not wait for libcurl and all that it loads.
    .target(name: "CPerdureCurl", dependencies: ["CCurl"]),
    .target(name: "CPerdureLinux"),
    .target(name: "CPerdureSDK"),
    .target(name: "CPerdureSQLite", dependencies: ["CSQLite"]),
    .systemLibrary(
      name: "CCurl",
      pkgConfig: "libcurl",
      providers: [.apt(["libcurl4-openssl-dev"])]
    ),
    .systemLibrary(
      name: "CFFI",
      pkgConfig: "libffi",
      providers: [.apt(["libffi-dev"])]
    ),
    .systemLibrary(
      name: "CSodium",
      pkgConfig: "libsodium",
      providers: [.apt(["libsodium-dev"])]
    ),
    .systemLibrary(
      name: "CSQLite",
      pkgConfig: "sqlite3",
      providers: [.apt(["libsqlite3-dev"])]
    ),

    // L1
    // Conversions of doubles call libm, which nothing else here would link.
    .target(
      name: "PerdureValue",
      swiftSettings: safe,
      linkerSettings: [.linkedLibrary("m")]
    ),

    // L2
    .target(name: "PerdureModel", dependencies: ["PerdureValue"], swiftSettings: safe),

    // L3
    .target(
      name: "PerdureCodingTools",
      dependencies: ["PerdureModel", "PerdureValue"],
      swiftSettings: safe
    ),
    .target(
      name: "PerdureEngine",
      dependencies: ["PerdureModel", "PerdureValue"],
      swiftSettings: safe
    ),
    .target(
      name: "PerdurePluginHost",
      dependencies: [
        "CPerdureABI", "CPerdureCheck", "CPerdureLinux", "CSodium", "PerdureModel", "PerdureValue",
      ],
      swiftSettings: base
    ),
    .target(
      name: "PerdurePluginKit",
      dependencies: ["CPerdureABI", "PerdureValue"],
      swiftSettings: base
    ),
    .target(
      name: "PerdureProviders",
      dependencies: [
        "CCurl", "CPerdureCurl", "CPerdureLinux", "PerdureModel", "PerdureValue",
      ],
      swiftSettings: base
    ),
    .target(
      name: "PerdureSandbox",
      dependencies: ["CPerdureLinux", "PerdureModel", "PerdureValue"],
      swiftSettings: base
    ),
    .target(
      name: "PerdureStorage",
      dependencies: [
        "CPerdureLinux", "CPerdureSQLite", "CSQLite", "PerdureModel", "PerdureValue",
      ],
      swiftSettings: base
    ),

    // L4
    .target(
      name: "Perdure",
      dependencies: [
        "CPerdureLinux", "PerdureCodingTools", "PerdureEngine", "PerdureModel",
        "PerdurePluginHost", "PerdureProviders", "PerdureSandbox", "PerdureStorage",
        "PerdureValue",
      ],
      swiftSettings: safe
    ),

    // L5
    .executableTarget(
      name: "PerdureBench",
      dependencies: [
        "CPerdureLinux", "CSQLite", "Perdure", "PerdureEngine", "PerdureModel",
        "PerdurePluginHost", "PerdureStorage", "PerdureValue",
      ],
      swiftSettings: base
    ),
    .executableTarget(
      name: "PerdureCLI",
      dependencies: ["CPerdureLinux", "CPerdureSDK", "Perdure", "PerdureModel", "PerdureValue"],
      swiftSettings: safe
    ),
    .executableTarget(
      name: "PerdureRunner",
      dependencies: ["CFFI", "PerdurePluginHost", "PerdureValue"],
      swiftSettings: base
    ),
    .target(
      name: "PerdureTestKit",
      dependencies: ["Perdure", "PerdureEngine", "PerdureModel", "PerdureStorage", "PerdureValue"],
      swiftSettings: safe
    ),

    // Tests
    .target(name: "TestPrograms", path: "Tests/TestPrograms", swiftSettings: base),
    .target(
      name: "CFaultyDisk",
      path: "Tests/CFaultyDisk",
      linkerSettings: [.linkedLibrary("sqlite3")]
    ),
    .target(
      name: "FaultyDisk",
      dependencies: ["CFaultyDisk"],
      path: "Tests/FaultyDisk",
      swiftSettings: base
    ),
    .executableTarget(
      name: "CrashProcess",
      dependencies: [
        "Perdure", "PerdureEngine", "PerdureModel", "PerdurePluginHost", "PerdureStorage",
        "PerdureTestKit", "PerdureValue", "TestPrograms",
      ],
      path: "Tests/CrashProcess",
      swiftSettings: base
    ),
    .executableTarget(
      name: "InteropProcess",
      dependencies: [
        "Perdure", "PerdureEngine", "PerdureModel", "PerdureStorage", "PerdureTestKit",
        "PerdureValue",
      ],
      path: "Tests/InteropProcess",
      swiftSettings: base
    ),
    .executableTarget(
      name: "SandboxProcess",
      dependencies: [
        "CPerdureLinux", "Perdure", "PerdureModel", "PerdureSandbox", "PerdureTestKit",
        "PerdureValue",
      ],
      path: "Tests/SandboxProcess",
      swiftSettings: base
    ),
    .executableTarget(
      name: "TaskProcess",
      dependencies: ["Perdure"],
      path: "Tests/TaskProcess",
      swiftSettings: base
    ),
    .testTarget(
      name: "DurabilityTests",
      dependencies: ["PerdureTestKit", "PerdureValue", "TestPrograms"],
      swiftSettings: safe
    ),
    .testTarget(
      name: "ArchitectureTests",
      dependencies: ["PerdureValue"],
      swiftSettings: safe
    ),
    .testTarget(
      name: "ABITests",
      dependencies: [
        "CPerdureLinux", "Perdure", "PerdureModel", "PerdurePluginHost", "PerdureTestKit",
        "PerdureValue", "TestPrograms",
      ],
      swiftSettings: base
    ),
    .testTarget(
      name: "AcceptanceTests",
      dependencies: ["Perdure", "PerdureCLI", "PerdureModel", "PerdureValue", "TaskProcess"],
      swiftSettings: base
    ),
    .testTarget(
      name: "PerdureEngineTests",
      dependencies: [
        "FaultyDisk", "PerdureEngine", "PerdureModel", "PerdureStorage", "PerdureTestKit",
        "PerdureValue", "TestPrograms",
      ],
      swiftSettings: safe
    ),
    .testTarget(
      name: "PerdureProvidersTests",
      dependencies: ["PerdureModel", "PerdureProviders", "PerdureValue"],
      swiftSettings: base
    ),
    .testTarget(
      name: "PerdureSandboxTests",
      dependencies: [
        "CPerdureLinux", "PerdureModel", "PerdureSandbox", "PerdureTestKit", "PerdureValue",
        "SandboxProcess", "TestPrograms",
      ],
      swiftSettings: base
    ),
    .testTarget(
      name: "PerdureStorageTests",
      dependencies: [
        "CPerdureLinux", "CSQLite", "FaultyDisk", "PerdureModel", "PerdureStorage",
        "PerdureTestKit", "PerdureValue",
      ],
      swiftSettings: base
    ),
    .testTarget(
      name: "PerdureTests",
      dependencies: [
        "Perdure", "PerdureModel", "PerdureStorage", "PerdureTestKit", "PerdureValue",
      ],
      swiftSettings: safe
    ),
    .testTarget(
      name: "PerdureValueTests",
      dependencies: ["PerdureTestKit", "PerdureValue", "TestPrograms"],
      swiftSettings: safe
    ),
  ]
)
