import { isIP } from 'node:net';
import type { TlsSettings } from '../../tls/index.ts';
import { MigrationProxyError } from './errors.ts';
import type { ProxyRole } from './ports.ts';
import { keepalive } from './stall.ts';
import { orderedBackend, orderedFrontend, orderedGlobal } from './stream-order.ts';

/** Descriptors that the program is given: it reads what it needs from them at its start, and none of it is on a disk. */
export const descriptors = { configuration: 3, keyPair: 4, authorities: 5, program: 6, firstListener: 7 } as const;

export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

interface Confinement {
  /** Name of the control socket in the working directory. */
  readonly controlName: string;
  readonly chroot: string;
  readonly user: UserIds;
  /** Dialling, the handshake, and waiting for one of the streams take no longer each. */
  readonly setUpSeconds: number;
  /**
   * A stream is ended when its other end takes nothing for so long: a process that is frozen, a machine that is gone. Neither
   * libvirt nor QEMU notices that of a stream with memory. One that is only silent goes on: during post-copy that is how streams are.
   */
  readonly stallSeconds: number;
  /** Streams dial in the order in which they were accepted: HAProxy has Lua here. */
  readonly inOrder: boolean;
}

/** TCP listeners with TLS that lead to sockets in the pod, which is the program's root directory. */
export interface TargetPlan extends Confinement {
  readonly side: 'target';
  readonly streams: readonly { readonly role: ProxyRole; readonly socket: string }[];
  /** `any`: upstream's `--externally-managed`. */
  readonly commonNames: readonly string[] | 'any';
  readonly settings: TlsSettings;
}

/** Unix listeners that lead to the listeners of another node's agent. */
export interface SourcePlan extends Confinement {
  readonly side: 'source';
  readonly address: string;
  readonly streams: readonly { readonly role: ProxyRole; readonly port: number }[];
  readonly commonName: string | 'any';
}

export type ProxyPlan = TargetPlan | SourcePlan;

/** A direction that is open alone and silent. */
const halfOpenSeconds = 60;
/** A stream at the target waits no longer for those that were accepted before it and show no certificate. */
const strangersMs = 1_000;
/** Served at a time, per role; upstream's launcher asks for nine at most. */
const maxStreams = 64;
/** The same with those that have shown no certificate yet. */
const maxConnections = 256;

/**
 * The text of HAProxy's configuration. One thread carries what a network of 10 Gb/s takes nearly. Streams that begin at once arrive in
 * order (QEMU before 8.0 takes the first one for the main channel), unless HAProxy has no Lua.
 * No retries, as upstream: the one that dials knows what to do.
 * Throws MigrationProxyError BAD_REQUEST for what is no plain address or name: objects of the cluster must not write configuration.
 */
export function configurationOf(plan: ProxyPlan): string {
  const streams = plan.side === 'target' ? targetStreams(plan) : sourceStreams(plan);
  return `${[...globalLines(plan), ...defaultLines(plan), ...streams].join('\n')}\n`;
}

function globalLines(plan: ProxyPlan): string[] {
  const { controlName, chroot, user } = plan;
  return [
    'global',
    '  nbthread 1',
    `  maxconn ${4 * maxConnections}`,
    `  chroot ${quoted(chroot)}`,
    // Certificates and listeners are there before: nothing of it needs a right afterwards.
    ...(user.uid === 0 ? [] : [`  gid ${user.gid}`, `  uid ${user.uid}`]),
    `  stats socket unix@${plain(controlName)} mode 600 level operator`,
    '  stats timeout 20d',
    '  tune.bufsize 131072',
    '  tune.ssl.maxrecord 16384',
    // Sessions are never resumed: the one that has resumed shows no certificate.
    '  tune.ssl.cachesize 0',
    ...(plan.inOrder ? orderedGlobal(rolesOf(plan), `/dev/fd/${descriptors.program}`) : []),
  ];
}

const defaultLines = ({ setUpSeconds, stallSeconds }: Confinement) => [
  'defaults',
  '  mode tcp',
  `  timeout connect ${setUpSeconds}s`,
  `  timeout client ${setUpSeconds}s`,
  `  timeout server ${setUpSeconds}s`,
  `  timeout queue ${setUpSeconds}s`,
  '  timeout tunnel 20d',
  `  timeout client-fin ${halfOpenSeconds}s`,
  `  timeout server-fin ${halfOpenSeconds}s`,
  '  retries 0',
  // Bytes are counted while they flow.
  '  option contstats',
  ...keepaliveLines('cli', stallSeconds),
  ...keepaliveLines('srv', stallSeconds),
];

/** A machine that is gone is noticed of a silent stream, too. */
function keepaliveLines(end: 'cli' | 'srv', stallSeconds: number): string[] {
  const { idle, interval, count } = keepalive(stallSeconds);
  const settings = [`${end}tcpka-idle ${idle}s`, `${end}tcpka-intvl ${interval}s`, `${end}tcpka-cnt ${count}`];
  return [`option ${end}tcpka`, ...settings].map((line) => `  ${line}`);
}

const trust = `ca-file /dev/fd/${descriptors.authorities} verify required`;
const keyPair = `crt /dev/fd/${descriptors.keyPair}`;
const ifStalled = ({ stallSeconds }: Confinement) => `tcp-ut ${stallSeconds}s`;

/** The handshake and the name in the certificate come before anything in the pod is dialled. */
function targetStreams(plan: TargetPlan): string[] {
  const { streams, commonNames, settings } = plan;
  const versions = `ssl-min-ver ${settings.minVersion === 'TLSv1' ? 'TLSv1.0' : plain(settings.minVersion)}`;
  const tls = `ssl ${keyPair} ${trust} ${versions} ciphers ${quoted(settings.ciphers)} no-tls-tickets ${ifStalled(plan)}`;
  const refusal =
    commonNames === 'any'
      ? []
      : [`  tcp-request content reject unless { ssl_c_s_dn(cn) -m str ${commonNames.map(plain).join(' ')} }`];
  return streams.flatMap(({ role, socket }, at) => [
    ...frontend(plan, role, `${listener(at)} ${tls}`, maxConnections),
    ...refusal,
    ...backend(plan, role, `unix@${plain(socket)} maxconn ${maxStreams}`),
  ]);
}

function sourceStreams(plan: SourcePlan): string[] {
  const { streams, address, commonName } = plan;
  const name = commonName === 'any' ? '' : ` verifyhost ${plain(commonName)}`;
  const tls = `ssl ${keyPair} ${trust}${name} ssl-min-ver TLSv1.2 no-ssl-reuse ${ifStalled(plan)}`;
  return streams.flatMap(({ role, port }, at) => [
    ...frontend(plan, role, listener(at), maxStreams),
    ...backend(plan, role, `${dialled(address, port)} ${tls}`),
  ]);
}

/** Before a target's streams there may be strangers; a source's wait for nothing but dialling. */
function waitMsOf({ side, setUpSeconds }: ProxyPlan): number {
  const waitMs = 1_000 * setUpSeconds;
  return side === 'target' ? Math.min(waitMs, strangersMs) : waitMs;
}

const rolesOf = ({ streams }: ProxyPlan) => streams.map(({ role }) => role);
const listener = (at: number) => `fd@${descriptors.firstListener + at}`;

function frontend({ inOrder }: ProxyPlan, role: ProxyRole, bind: string, connections: number): string[] {
  const order = inOrder ? orderedFrontend(role) : [];
  return [`frontend ${role}`, `  maxconn ${connections}`, `  default_backend ${role}`, `  bind ${bind}`, ...order];
}

function backend(plan: ProxyPlan, role: ProxyRole, server: string): string[] {
  return [`backend ${role}`, ...(plan.inOrder ? orderedBackend(role, waitMsOf(plan)) : []), `  server peer ${server}`];
}

/** No host names: the program asks no name server. */
function dialled(address: string, port: number): string {
  const family = isIP(address);
  if (family === 0 || address.includes('%')) {
    throw new MigrationProxyError('BAD_REQUEST', `${JSON.stringify(address.slice(0, 100))} is no IP address of a node`);
  }
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new MigrationProxyError('BAD_REQUEST', `${port} is no TCP port`);
  }
  return family === 6 ? `ipv6@[${address}]:${port}` : `ipv4@${address}:${port}`;
}

/** One word of the configuration that needs no quoting. */
function plain(word: string): string {
  if (/^[\w./:-]{1,200}$/.test(word)) return word;
  throw new MigrationProxyError('BAD_REQUEST', `${JSON.stringify(word.slice(0, 100))} is no name for a configuration`);
}

function quoted(text: string): string {
  if (/^[^\p{Cc}']*$/u.test(text)) return `'${text}'`;
  throw new MigrationProxyError('BAD_REQUEST', `${JSON.stringify(text.slice(0, 100))} cannot be quoted`);
}
