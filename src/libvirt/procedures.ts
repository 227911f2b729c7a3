import {
  array,
  type Codec,
  charArray,
  hyper,
  int,
  nothing,
  opaque,
  optional,
  string,
  struct,
  uhyper,
  uint,
} from './codec.ts';
import { domain, domainList, uuid } from './domain.ts';
import { typedParams } from './typed-params.ts';

export const Program = { REMOTE: 0x20008086, QEMU: 0x20008087, KEEPALIVE: 0x6b656570 } as const;

/** One remote call: its number on the wire and the shapes of its arguments and reply. */
export interface Procedure<Args, Reply> {
  readonly program: number;
  readonly number: number;
  readonly args: Codec<Args>;
  readonly reply: Codec<Reply>;
}

function remote<Args, Reply>(number: number, args: Codec<Args>, reply: Codec<Reply>): Procedure<Args, Reply> {
  return { program: Program.REMOTE, number, args, reply };
}

const flags = uint;
const onDomain = struct({ domain });
const flagged = struct({ domain, flags });
const deviceXml = struct({ domain, xml: string, flags });
const text = struct({ value: string });
const number = struct({ value: int });
const unsigned = struct({ value: uhyper });
const oneDomain = struct({ domain });
/** `remote_nonnull_domain_checkpoint`. */
const checkpoint = struct({ name: string, domain });
const cpumap = opaque(2048);
const mountPoints = array(string, 256);
const maxCookieBytes = 4_194_304;
const nodeInfo = struct({
  model: charArray(32),
  memoryKiB: uhyper,
  cpus: int,
  mhz: int,
  nodes: int,
  sockets: int,
  cores: int,
  threads: int,
});
const guestAddress = struct({ type: int, address: string, prefix: uint });
const guestInterface = struct({ name: string, hwaddr: optional(string), addresses: array(guestAddress, 2048) });
const fileSystem = struct({
  mountpoint: string,
  name: string,
  fstype: string,
  devices: array(string, 256),
});

/** The calls of remote_protocol.x that this project makes. */
export const procedures = {
  connectOpen: remote(1, struct({ name: optional(string), flags }), nothing),
  connectClose: remote(2, nothing, nothing),
  connectGetType: remote(3, nothing, text),
  connectGetVersion: remote(4, nothing, unsigned),
  nodeGetInfo: remote(6, nothing, nodeInfo),
  connectGetCapabilities: remote(7, nothing, text),
  domainCreateXml: remote(10, struct({ xml: string, flags }), oneDomain),
  domainGetXmlDesc: remote(14, flagged, text),
  domainGetInfo: remote(
    16,
    onDomain,
    struct({ state: int, maxMemoryKiB: uhyper, memoryKiB: uhyper, vcpus: uint, cpuTimeNs: uhyper }),
  ),
  domainLookupById: remote(22, struct({ id: int }), oneDomain),
  domainLookupByName: remote(23, struct({ name: string }), oneDomain),
  domainLookupByUuid: remote(24, struct({ uuid }), oneDomain),
  domainReboot: remote(27, flagged, nothing),
  domainResume: remote(28, onDomain, nothing),
  domainSuspend: remote(34, onDomain, nothing),
  connectGetHostname: remote(59, nothing, text),
  connectSupportsFeature: remote(60, struct({ feature: int }), number),
  authList: remote(66, nothing, struct({ types: array(int, 20) })),
  authPolkit: remote(70, nothing, struct({ complete: int })),
  connectGetUri: remote(110, nothing, text),
  domainIsPersistent: remote(151, onDomain, number),
  connectGetLibVersion: remote(157, nothing, unsigned),
  domainMemoryStats: remote(
    159,
    struct({ domain, maxStats: uint, flags }),
    struct({ stats: array(struct({ tag: int, value: uhyper }), 1024) }),
  ),
  domainAttachDevice: remote(160, deviceXml, nothing),
  domainDetachDevice: remote(161, deviceXml, nothing),
  domainAbortJob: remote(164, onDomain, nothing),
  domainMigrateSetMaxDowntime: remote(166, struct({ domain, milliseconds: uhyper, flags }), nothing),
  domainUpdateDevice: remote(174, deviceXml, nothing),
  domainGetBlockInfo: remote(
    194,
    struct({ domain, path: string, flags }),
    struct({ allocationBytes: uhyper, capacityBytes: uhyper, physicalBytes: uhyper }),
  ),
  domainCreateWithFlags: remote(196, flagged, oneDomain),
  domainSetVcpus: remote(199, struct({ domain, count: uint, flags }), nothing),
  domainGetVcpus: remote(200, flagged, number),
  domainOpenConsole: remote(201, struct({ domain, device: optional(string), flags }), nothing),
  domainSetMemory: remote(204, struct({ domain, memoryKiB: uhyper, flags }), nothing),
  domainMigrateSetMaxSpeed: remote(207, struct({ domain, mebibytesPerSecond: uhyper, flags }), nothing),
  domainInjectNmi: remote(210, flagged, nothing),
  domainScreenshot: remote(211, struct({ domain, screen: uint, flags }), struct({ mime: optional(string) })),
  domainGetState: remote(212, flagged, struct({ state: int, reason: int })),
  domainPinVcpu: remote(225, struct({ domain, vcpu: uint, cpumap, flags }), nothing),
  domainSendKey: remote(
    226,
    struct({ domain, codeset: uint, holdTimeMs: uint, keycodes: array(uint, 16), flags }),
    nothing,
  ),
  domainGetVcpuPinInfo: remote(
    230,
    struct({ domain, maps: int, mapBytes: int, flags }),
    struct({ cpumaps: opaque(8_388_608), count: int }),
  ),
  domainUndefine: remote(231, flagged, nothing),
  domainDestroy: remote(234, flagged, nothing),
  domainMigrateGetMaxSpeed: remote(242, flagged, unsigned),
  domainReset: remote(245, flagged, nothing),
  domainBlockResize: remote(251, struct({ domain, disk: string, size: uhyper, flags }), nothing),
  domainShutdown: remote(258, flagged, nothing),
  domainGetDiskErrors: remote(
    263,
    struct({ domain, maxErrors: uint, flags }),
    struct({ errors: array(struct({ disk: string, error: int }), 256), count: int }),
  ),
  domainSetMetadata: remote(
    264,
    struct({
      domain,
      type: int,
      metadata: optional(string),
      key: optional(string),
      uri: optional(string),
      flags,
    }),
    nothing,
  ),
  domainGetMetadata: remote(265, struct({ domain, type: int, uri: optional(string), flags }), text),
  connectListAllDomains: remote(273, struct({ needResults: int, flags }), struct({ domains: domainList, count: uint })),
  domainPinEmulator: remote(279, struct({ domain, cpumap, flags }), nothing),
  domainGetJobStats: remote(298, flagged, struct({ type: int, params: typedParams(64) })),
  domainMigratePerform: remote(
    305,
    struct({ domain, connectUri: optional(string), params: typedParams(64), cookie: opaque(maxCookieBytes), flags }),
    struct({ cookie: opaque(maxCookieBytes) }),
  ),
  domainSetMemoryStatsPeriod: remote(308, struct({ domain, periodSeconds: int, flags }), nothing),
  registerEvent: remote(316, struct({ event: int, domain: optional(domain) }), struct({ callbackId: int })),
  deregisterEvent: remote(317, struct({ callbackId: int }), nothing),
  domainCoreDump: remote(334, struct({ domain, to: string, format: uint, flags }), nothing),
  domainFsFreeze: remote(335, struct({ domain, mountPoints, flags }), number),
  domainFsThaw: remote(336, struct({ domain, mountPoints, flags }), number),
  domainSetTime: remote(338, struct({ domain, seconds: hyper, nanoseconds: uint, flags }), nothing),
  connectGetDomainCapabilities: remote(
    342,
    struct({
      emulator: optional(string),
      arch: optional(string),
      machine: optional(string),
      virttype: optional(string),
      flags,
    }),
    text,
  ),
  connectGetAllDomainStats: remote(
    344,
    struct({ domains: domainList, stats: uint, flags }),
    struct({ records: array(struct({ domain, params: typedParams(262_144) }), 16_384) }),
  ),
  domainGetFsInfo: remote(349, flagged, struct({ fileSystems: array(fileSystem, 256), count: uint })),
  domainDefineXml: remote(350, struct({ xml: string, flags }), oneDomain),
  domainInterfaceAddresses: remote(
    353,
    struct({ domain, source: uint, flags }),
    struct({ interfaces: array(guestInterface, 2048) }),
  ),
  domainSetUserPassword: remote(
    357,
    struct({ domain, user: optional(string), password: optional(string), flags }),
    nothing,
  ),
  domainMigrateStartPostCopy: remote(364, flagged, nothing),
  domainMigrateGetMaxDowntime: remote(387, flagged, unsigned),
  domainDetachDeviceAlias: remote(392, struct({ domain, alias: string, flags }), nothing),
  nodeGetSevInfo: remote(395, struct({ count: int, flags }), struct({ params: typedParams(64), count: int })),
  domainGetLaunchSecurityInfo: remote(396, flagged, struct({ params: typedParams(64) })),
  domainCheckpointCreateXml: remote(411, deviceXml, struct({ checkpoint })),
  domainCheckpointListAll: remote(
    413,
    struct({ domain, needResults: int, flags }),
    struct({ checkpoints: array(checkpoint, 16_384), count: int }),
  ),
  domainCheckpointDelete: remote(417, struct({ checkpoint, flags }), nothing),
  domainGetGuestInfo: remote(418, struct({ domain, types: uint, flags }), struct({ params: typedParams(2048) })),
  domainBackupBegin: remote(
    421,
    struct({ domain, backupXml: string, checkpointXml: optional(string), flags }),
    nothing,
  ),
  domainSetAuthorizedSshKeys: remote(425, struct({ domain, user: string, keys: array(string, 2048), flags }), nothing),
  domainStartDirtyRateCalc: remote(427, struct({ domain, seconds: int, flags }), nothing),
  domainSetLaunchSecurityState: remote(439, struct({ domain, params: typedParams(64), flags }), nothing),
  agentCommand: {
    program: Program.QEMU,
    number: 3,
    args: struct({ domain, command: string, timeoutSeconds: int, flags }),
    reply: struct({ result: optional(string) }),
  },
  monitorCommand: {
    program: Program.QEMU,
    number: 1,
    args: struct({ domain, command: string, flags }),
    reply: struct({ result: string }),
  },
} as const;
