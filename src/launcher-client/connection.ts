import {
  Client,
  connectivityState,
  credentials,
  Metadata,
  type MethodDefinition,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import type { Domain, LauncherAddress, VirtualMachineInstance } from '../api/index.ts';
import { errorCode, errorMessage } from '../base/index.ts';
import { listenerOf, type Peer } from '../host/index.ts';
import { clientOptions, cmd, cmdInfo, decodeDomain, negotiateVersion } from '../wire/index.ts';
import { type CommandRequest, type CommandResponse, type CommandRpc, commands } from './commands.ts';
import { badAnswer, commandFailed, LauncherClientError, mapRpcError } from './errors.ts';
import { checkedPeer } from './pod-of-peer.ts';
import { type PinnedSocket, probeSocket } from './probe.ts';

export interface ConnectionLimits {
  /** Dial in total; 2 s upstream. */
  readonly dialTimeoutMs: number;
  /** Info; 5 s upstream. */
  readonly infoTimeoutMs: number;
  /** connect() to learn the peer; 5 s upstream. */
  readonly peerTimeoutMs: number;
}

export const connectionLimits: ConnectionLimits = { dialTimeoutMs: 2_000, infoTimeoutMs: 5_000, peerTimeoutMs: 5_000 };

/** An open connection, as all but its maker see it. */
export type OpenConnection = Pick<LauncherConnection, keyof LauncherConnection>;

/** The request that carries a whole VMI. Options are present, as upstream sends them, and empty unless given. */
export function vmiRequest(
  vmi: VirtualMachineInstance,
  options: Partial<cmd.VirtualMachineOptions> = {},
): cmd.VMIRequest {
  return {
    vmi: { vmiJson: Buffer.from(JSON.stringify(vmi)) },
    options: cmd.VirtualMachineOptions.fromPartial(options),
  };
}

/**
 * One connection to one launcher process. The socket file it dials is held open, so a re-dial can only reach the listener
 * that was found first: a process that puts another socket in its place is never talked to.
 */
export class LauncherConnection {
  readonly address: LauncherAddress;
  /** The process that listens; pinned with its start time. */
  readonly peer: Peer;
  readonly #client: Client;
  readonly #socket: PinnedSocket;
  readonly #onDown: () => void;
  readonly #ended: () => Promise<boolean>;
  #closed = false;

  private constructor(parts: {
    address: LauncherAddress;
    peer: Peer;
    client: Client;
    socket: PinnedSocket;
    deps: ConnectionDeps;
  }) {
    this.address = parts.address;
    this.peer = parts.peer;
    this.#client = parts.client;
    this.#socket = parts.socket;
    this.#onDown = () => parts.deps.onDown(this);
    this.#ended = () => parts.deps.hasEnded(this);
    this.#watch();
  }

  /**
   * Learns the peer unless it is known of a moment ago, dials, agrees on a version. Takes over `socket`. Rejects with
   * LauncherClientError NOT_LISTENING (proof that this launcher ended), NO_PEER, TIMEOUT, UNAVAILABLE or INCOMPATIBLE; nothing stays
   * open then.
   */
  static async open(
    address: LauncherAddress,
    socket: PinnedSocket,
    deps: ConnectionDeps,
    limits: ConnectionLimits = connectionLimits,
    seen?: Peer,
  ): Promise<LauncherConnection> {
    let client: Client | undefined;
    try {
      const peer = seen ?? (await askPeer(address, socket, limits));
      client = new Client(`unix:${socket.socketAddress}`, credentials.createInsecure(), clientOptions());
      await dial(client, address, socket, limits);
      await agreeOnVersion(client, address, limits.infoTimeoutMs);
      return new LauncherConnection({ address, peer, client, socket, deps });
    } catch (error) {
      client?.close();
      socket.close();
      throw error;
    }
  }

  /** The pinned socket as a path to probe; throws after `close`. */
  get socketPath(): string {
    return this.#socket.socketAddress;
  }

  get closed(): boolean {
    return this.#closed;
  }

  get connected(): boolean {
    return !this.#closed && this.#client.getChannel().getConnectivityState(false) === connectivityState.READY;
  }

  /** Dials again after the connection broke, so that its end is noticed again without a call. */
  reconnect(): void {
    if (!this.#closed) this.#client.getChannel().getConnectivityState(true);
  }

  /**
   * Calls one rpc with the deadline of `commands`. `success=false` rejects with COMMAND_FAILED, but for the rpcs whose
   * answer says more (exec, guestPing, redefineCheckpoint). Rejects with LauncherClientError only.
   */
  async call<R extends CommandRpc>(
    rpc: R,
    request: CommandRequest<R>,
    signal?: AbortSignal,
  ): Promise<CommandResponse<R>> {
    const { name, timeoutMs, checked } = commands[rpc];
    if (this.#closed) throw new LauncherClientError('CLOSED', `command ${name}: the connection was closed`);
    const extra = 'timeoutSeconds' in request ? Math.max(0, Number(request.timeoutSeconds)) * 1_000 : 0;
    const method = cmd.CmdService[rpc] as unknown as UnaryMethod<CommandRequest<R>, CommandResponse<R>>;
    let answer: CommandResponse<R>;
    try {
      answer = await unary(this.#client, method, request, timeoutMs + extra, signal);
    } catch (error) {
      throw await this.#mapped(name, error, signal);
    }
    const response = responseOf(answer);
    if (checked !== false && response && !response.success) throw commandFailed(name, response.message);
    return answer;
  }

  async ping(signal?: AbortSignal): Promise<void> {
    await this.call('ping', {}, signal);
  }

  /** The launcher's domain; undefined is the launcher's word that there is none. */
  async getDomain(signal?: AbortSignal): Promise<Domain | undefined> {
    const { domain } = await this.call('getDomain', {}, signal);
    if (domain === '') return undefined;
    try {
      return decodeDomain(domain);
    } catch (error) {
      throw badAnswer('domain', error);
    }
  }

  /** Ends calls under way. Safe to call twice. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#client.close();
    this.#socket.close();
  }

  async #mapped(name: string, error: unknown, signal: AbortSignal | undefined): Promise<LauncherClientError> {
    if (signal?.aborted)
      return new LauncherClientError('ABORTED', `command ${name} was given up`, { cause: signal.reason });
    if (!isServiceError(error)) {
      return new LauncherClientError('RPC_FAILED', `command ${name}: ${errorMessage(error)}`, { cause: error });
    }
    if (this.#closed)
      return new LauncherClientError('CLOSED', `command ${name}: the connection was closed`, { cause: error });
    const ended = error.code === status.UNAVAILABLE && (await this.#ended());
    return mapRpcError(name, error, ended);
  }

  /** The kernel closes a process's sockets when it ends: leaving READY is the event, no polling is needed. */
  #watch(): void {
    const channel = this.#client.getChannel();
    const before = channel.getConnectivityState(false);
    channel.watchConnectivityState(before, Number.POSITIVE_INFINITY, () => {
      if (this.#closed) return;
      if (before === connectivityState.READY) this.#onDown();
      if (!this.#closed) this.#watch();
    });
  }
}

export interface ConnectionDeps {
  /** The connection broke; the launcher may have ended, or not. */
  readonly onDown: (connection: OpenConnection) => void;
  /** Whether this connection's launcher is proven to have ended. */
  readonly hasEnded: (connection: OpenConnection) => Promise<boolean>;
}

type UnaryMethod<Req, Res> = Pick<MethodDefinition<Req, Res>, 'path' | 'requestSerialize' | 'responseDeserialize'>;

function unary<Req, Res>(
  client: Client,
  method: UnaryMethod<Req, Res>,
  request: Req,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Res> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const cancel = () => call.cancel();
    const call = client.makeUnaryRequest<Req, Res>(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      request,
      new Metadata(),
      { deadline: Date.now() + timeoutMs },
      (error, answer) => {
        signal?.removeEventListener('abort', cancel);
        if (error) reject(error);
        else if (answer === undefined) reject(new Error('an answer without a message'));
        else resolve(answer);
      },
    );
    signal?.addEventListener('abort', cancel, { once: true });
  });
}

/** The answer itself, or the one inside it; undefined counts as success. */
function responseOf(answer: unknown): cmd.Response | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  if ('success' in answer) return answer as cmd.Response;
  return 'response' in answer ? (answer.response as cmd.Response | undefined) : undefined;
}

async function askPeer(
  address: LauncherAddress,
  socket: PinnedSocket,
  { peerTimeoutMs }: ConnectionLimits,
): Promise<Peer> {
  const peer = await listenerOf(socket.socketAddress, peerTimeoutMs).catch((error) => {
    throw peerFailure(address, error);
  });
  return checkedPeer(peer, { socketFile: address.socketFile, bornMs: socket.stat?.().birthtimeMs });
}

async function dial(
  client: Client,
  address: LauncherAddress,
  { socketAddress }: PinnedSocket,
  { dialTimeoutMs, peerTimeoutMs }: ConnectionLimits,
): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      client.waitForReady(Date.now() + dialTimeoutMs, (error) => (error ? reject(error) : resolve()));
    });
  } catch (cause) {
    // gRPC does not say why: a probe tells a launcher that ended right before from one that hangs.
    if ((await probeSocket(socketAddress, peerTimeoutMs)) === 'refused') throw notListening(address, cause);
    throw new LauncherClientError('TIMEOUT', `${address.socketFile} did not answer within ${dialTimeoutMs} ms`, {
      cause,
    });
  }
}

const transientCodes: Readonly<Record<number, 'TIMEOUT' | 'UNAVAILABLE'>> = {
  [status.DEADLINE_EXCEEDED]: 'TIMEOUT',
  [status.UNAVAILABLE]: 'UNAVAILABLE',
};

async function agreeOnVersion(client: Client, { socketFile }: LauncherAddress, timeoutMs: number): Promise<void> {
  const method = cmdInfo.CmdInfoService.info;
  let versions: readonly number[];
  try {
    ({ supportedCmdVersions: versions } = await unary(client, method, {}, timeoutMs));
  } catch (error) {
    const code = (isServiceError(error) && transientCodes[error.code]) || 'INCOMPATIBLE';
    const text = `${socketFile} does not tell its protocol versions: ${errorMessage(error)}`;
    throw new LauncherClientError(code, text, { cause: error });
  }
  try {
    negotiateVersion(versions);
  } catch (error) {
    throw new LauncherClientError('INCOMPATIBLE', `${socketFile}: ${errorMessage(error)}`, { cause: error });
  }
}

function notListening({ socketFile }: LauncherAddress, cause: unknown): LauncherClientError {
  return new LauncherClientError('NOT_LISTENING', `${socketFile}: nobody listens`, { cause });
}

function peerFailure(address: LauncherAddress, error: unknown): LauncherClientError {
  const { socketFile } = address;
  const code = errorCode(error);
  const text = `${socketFile}: ${errorMessage(error)}`;
  if (code === 'ECONNREFUSED') return notListening(address, error);
  if (code === 'TIMEOUT' || code === 'EAGAIN') return new LauncherClientError('TIMEOUT', text, { cause: error });
  return new LauncherClientError('NO_PEER', text, { cause: error });
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && 'details' in error;
}
