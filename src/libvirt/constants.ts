/** Numbers of libvirt's API that callers of this folder need (remote_protocol.x of libvirt). */

export const ErrorNumber = {
  INTERNAL_ERROR: 1,
  NO_MEMORY: 2,
  NO_SUPPORT: 3,
  INVALID_CONN: 6,
  INVALID_DOMAIN: 7,
  INVALID_ARG: 8,
  OPERATION_FAILED: 9,
  NO_NAME: 21,
  XML_ERROR: 27,
  OPERATION_DENIED: 29,
  SYSTEM_ERROR: 38,
  RPC: 39,
  NO_DOMAIN: 42,
  AUTH_FAILED: 45,
  OPERATION_INVALID: 55,
  CONFIG_UNSUPPORTED: 67,
  OPERATION_TIMEOUT: 68,
  MIGRATE_PERSIST_FAILED: 69,
  HOOK_SCRIPT_FAILED: 70,
  INVALID_STREAM: 73,
  ARGUMENT_UNSUPPORTED: 74,
  OPERATION_ABORTED: 78,
  AUTH_CANCELLED: 79,
  NO_DOMAIN_METADATA: 80,
  MIGRATE_UNSAFE: 81,
  OPERATION_UNSUPPORTED: 84,
  AGENT_UNRESPONSIVE: 86,
  RESOURCE_BUSY: 87,
  ACCESS_DENIED: 88,
  CPU_INCOMPATIBLE: 91,
  XML_INVALID_SCHEMA: 92,
  MIGRATE_FINISH_OK: 93,
  AUTH_UNAVAILABLE: 94,
  AGENT_UNSYNCED: 97,
  DEVICE_MISSING: 99,
  INVALID_DOMAIN_CHECKPOINT: 102,
  NO_DOMAIN_CHECKPOINT: 103,
  NO_DOMAIN_BACKUP: 104,
  CHECKPOINT_INCONSISTENT: 109,
  AGENT_COMMAND_TIMEOUT: 112,
  AGENT_COMMAND_FAILED: 113,
} as const;

/** The component an error comes from (its "domain"). */
export const ErrorOrigin = {
  NONE: 0,
  XML: 5,
  DOMAIN: 6,
  RPC: 7,
  QEMU: 10,
  TEST: 12,
  REMOTE: 13,
  DOMAIN_CONFIG: 20,
  SECURITY: 24,
  CPU: 31,
  STREAMS: 38,
  EVENT: 40,
  URI: 45,
} as const;

export const DomainState = {
  NOSTATE: 0,
  RUNNING: 1,
  BLOCKED: 2,
  PAUSED: 3,
  SHUTDOWN: 4,
  SHUTOFF: 5,
  CRASHED: 6,
  PMSUSPENDED: 7,
} as const;

/** Of the reasons for PAUSED. */
export const PausedReason = { IOERROR: 5 } as const;

export const LifecycleEvent = {
  DEFINED: 0,
  UNDEFINED: 1,
  STARTED: 2,
  SUSPENDED: 3,
  RESUMED: 4,
  STOPPED: 5,
  SHUTDOWN: 6,
  PMSUSPENDED: 7,
  CRASHED: 8,
} as const;

export const LifecycleDetail = {
  DEFINED: { ADDED: 0, UPDATED: 1, RENAMED: 2, FROM_SNAPSHOT: 3 },
  UNDEFINED: { REMOVED: 0, RENAMED: 1 },
  STARTED: { BOOTED: 0, MIGRATED: 1, RESTORED: 2, FROM_SNAPSHOT: 3, WAKEUP: 4 },
  SUSPENDED: {
    PAUSED: 0,
    MIGRATED: 1,
    IOERROR: 2,
    WATCHDOG: 3,
    RESTORED: 4,
    FROM_SNAPSHOT: 5,
    API_ERROR: 6,
    POSTCOPY: 7,
    POSTCOPY_FAILED: 8,
  },
  RESUMED: { UNPAUSED: 0, MIGRATED: 1, FROM_SNAPSHOT: 2, POSTCOPY: 3, POSTCOPY_FAILED: 4 },
  STOPPED: { SHUTDOWN: 0, DESTROYED: 1, CRASHED: 2, MIGRATED: 3, SAVED: 4, FAILED: 5, FROM_SNAPSHOT: 6 },
  SHUTDOWN: { FINISHED: 0, GUEST: 1, HOST: 2 },
  PMSUSPENDED: { MEMORY: 0, DISK: 1 },
  CRASHED: { PANICKED: 0, CRASHLOADED: 1 },
} as const;

export const AgentState = { CONNECTED: 1, DISCONNECTED: 2 } as const;
export const AgentReason = { UNKNOWN: 0, DOMAIN_STARTED: 1, CHANNEL: 2 } as const;

export const CreateFlag = {
  START_PAUSED: 1,
  AUTODESTROY: 2,
  BYPASS_CACHE: 4,
  FORCE_BOOT: 8,
  VALIDATE: 16,
  RESET_NVRAM: 32,
} as const;
export const DefineFlag = { VALIDATE: 1 } as const;
/** Also for reboot. */
export const ShutdownFlag = {
  DEFAULT: 0,
  ACPI_POWER_BTN: 1,
  GUEST_AGENT: 2,
  INITCTL: 4,
  SIGNAL: 8,
  PARAVIRT: 16,
} as const;
export const DestroyFlag = { DEFAULT: 0, GRACEFUL: 1, REMOVE_LOGS: 2 } as const;
export const UndefineFlag = {
  MANAGED_SAVE: 1,
  SNAPSHOTS_METADATA: 2,
  NVRAM: 4,
  KEEP_NVRAM: 8,
  CHECKPOINTS_METADATA: 16,
  TPM: 32,
  KEEP_TPM: 64,
} as const;
export const XmlFlag = { SECURE: 1, INACTIVE: 2, UPDATE_CPU: 4, MIGRATABLE: 8 } as const;
/** For device changes, pinning, metadata. FORCE only for `updateDevice`. */
export const AffectFlag = { CURRENT: 0, LIVE: 1, CONFIG: 2, FORCE: 4 } as const;
export const VcpuFlag = { LIVE: 1, CONFIG: 2, MAXIMUM: 4, GUEST: 8, HOTPLUGGABLE: 16 } as const;
/** Filter of `listAllDomains` and of `getAllDomainStats`. */
export const ListFlag = {
  ACTIVE: 1,
  INACTIVE: 2,
  PERSISTENT: 4,
  TRANSIENT: 8,
  RUNNING: 16,
  PAUSED: 32,
  SHUTOFF: 64,
  OTHER: 128,
} as const;
/** Only for `getAllDomainStats`, added to a `ListFlag` filter. */
export const StatsFlag = { NOWAIT: 2 ** 29, BACKING: 2 ** 30, ENFORCE_STATS: 2 ** 31 } as const;
export const StatsGroup = {
  STATE: 1,
  CPU_TOTAL: 2,
  BALLOON: 4,
  VCPU: 8,
  INTERFACE: 16,
  BLOCK: 32,
  PERF: 64,
  IOTHREAD: 128,
  MEMORY: 256,
  DIRTYRATE: 512,
  VM: 1024,
} as const;
export const MemoryStatTag = {
  SWAP_IN: 0,
  SWAP_OUT: 1,
  MAJOR_FAULT: 2,
  MINOR_FAULT: 3,
  UNUSED: 4,
  AVAILABLE: 5,
  ACTUAL_BALLOON: 6,
  RSS: 7,
  USABLE: 8,
  LAST_UPDATE: 9,
  DISK_CACHES: 10,
  HUGETLB_PGALLOC: 11,
  HUGETLB_PGFAIL: 12,
} as const;
export const GuestInfoType = {
  USERS: 1,
  OS: 2,
  TIMEZONE: 4,
  HOSTNAME: 8,
  FILESYSTEM: 16,
  DISKS: 32,
  INTERFACES: 64,
  LOAD: 128,
} as const;
export const MetadataType = { DESCRIPTION: 0, TITLE: 1, ELEMENT: 2 } as const;
export const BlockResizeFlag = { BYTES: 1, CAPACITY: 2 } as const;
export const DumpFlag = { CRASH: 1, LIVE: 2, BYPASS_CACHE: 4, RESET: 8, MEMORY_ONLY: 16 } as const;
export const DumpFormat = { RAW: 0, KDUMP_ZLIB: 1, KDUMP_LZO: 2, KDUMP_SNAPPY: 3, WIN_DMP: 4 } as const;
export const DiskError = { NONE: 0, UNSPEC: 1, NO_SPACE: 2 } as const;
export const JobType = { NONE: 0, BOUNDED: 1, UNBOUNDED: 2, COMPLETED: 3, FAILED: 4, CANCELLED: 5 } as const;
export const JobOperation = {
  UNKNOWN: 0,
  START: 1,
  SAVE: 2,
  RESTORE: 3,
  MIGRATION_IN: 4,
  MIGRATION_OUT: 5,
  SNAPSHOT: 6,
  SNAPSHOT_REVERT: 7,
  DUMP: 8,
  BACKUP: 9,
  SNAPSHOT_DELETE: 10,
} as const;
export const JobStatsFlag = { COMPLETED: 1, KEEP_COMPLETED: 2 } as const;
export const MigrateFlag = {
  LIVE: 1,
  PEER2PEER: 2,
  PERSIST_DEST: 8,
  UNDEFINE_SOURCE: 16,
  PAUSED: 32,
  NON_SHARED_DISK: 64,
  NON_SHARED_INC: 128,
  UNSAFE: 512,
  ABORT_ON_ERROR: 4096,
  AUTO_CONVERGE: 8192,
  POSTCOPY: 32_768,
  PARALLEL: 131_072,
  POSTCOPY_RESUME: 524_288,
} as const;
/** Which limit is meant: that of the copying before the switch unless POSTCOPY is given. */
export const MaxSpeedFlag = { POSTCOPY: 1 } as const;
/** Source of `interfaceAddresses`. */
export const AddressSource = { LEASE: 0, AGENT: 1, ARP: 2 } as const;
export const DirtyRateStatus = { UNSTARTED: 0, MEASURING: 1, MEASURED: 2 } as const;
/** `timeoutSeconds` of `agentCommand`. */
export const AgentTimeout = { BLOCK: -2, DEFAULT: -1, NOWAIT: 0 } as const;
/** Which monitor of QEMU a `monitorCommand` is for: QMP, or with HMP the human one. */
export const MonitorFlag = { HMP: 1 } as const;
/** Redefine: libvirt is told of a checkpoint whose bitmaps are in the images already; validate: it looks whether they are. */
export const CheckpointCreateFlag = { REDEFINE: 1, QUIESCE: 2, REDEFINE_VALIDATE: 4 } as const;
/** Code set of `sendKey`. */
export const KeycodeSet = { LINUX: 0, XT: 1, ATSET1: 2, ATSET2: 3, ATSET3: 4, OSX: 5, XT_KBD: 6, USB: 7 } as const;
