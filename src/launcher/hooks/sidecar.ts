import { Client, credentials, Metadata, status } from '@grpc/grpc-js';
import { errorMessage } from '../../base/index.ts';
import { clientOptions, hooks, hooksInfo, unixTarget } from '../../wire/index.ts';
import { LauncherError } from '../errors.ts';

export type HookPoint = 'OnDefineDomain' | 'PreCloudInitIso' | 'Shutdown';

/** Newest first: it is what is spoken when both ends know it. Each with the hook points that it has. */
const versions = [
  { version: 'v1alpha3', points: ['OnDefineDomain', 'PreCloudInitIso', 'Shutdown'] },
  { version: 'v1alpha2', points: ['OnDefineDomain', 'PreCloudInitIso'] },
  { version: 'v1alpha1', points: ['OnDefineDomain'] },
] as const;

/** Upstream's: a sidecar that runs another program takes a while. */
const callLimitMs = 60_000;
const infoLimitMs = 1_000;

/** What a sidecar says of itself. */
export interface Sidecar {
  readonly socket: string;
  readonly name: string;
  readonly version: (typeof versions)[number]['version'];
  /** Points that it wants to be called at, with their priorities: the highest is called first. */
  readonly points: ReadonlyMap<HookPoint, number>;
}

/** Undefined: nobody answers there yet. Throws LauncherError NOT_SUPPORTED, HOOK_FAILED. */
export async function readSidecar(socket: string): Promise<Sidecar | undefined> {
  const answer = await withClient(socket, (client) =>
    unary(client, '/kubevirt.hooks.info.Info/Info', hooksInfo.InfoParams, hooksInfo.InfoResult, {}, infoLimitMs),
  ).catch((error: unknown) => {
    if (isSilent(error)) return undefined;
    throw failed(socket, 'Info', error);
  });
  if (!answer) return undefined;
  const spoken = versions.find(({ version }) => answer.versions.includes(version));
  if (!spoken) {
    const has = answer.versions.slice(0, 8).join(', ') || 'none';
    const knows = versions.map(({ version }) => version).join(', ');
    throw new LauncherError('NOT_SUPPORTED', `hook sidecar ${answer.name} speaks ${has}, this launcher ${knows}`);
  }
  const points = answer.hookPoints.flatMap(({ name, priority }): [HookPoint, number][] => {
    const known = spoken.points.find((point) => point === name);
    return known ? [[known, priority]] : [];
  });
  return { socket, name: answer.name, version: spoken.version, points: new Map(points) };
}

export const onDefineDomain = (sidecar: Sidecar, params: hooks.OnDefineDomainParams) =>
  call(sidecar, 'OnDefineDomain', hooks.OnDefineDomainParams, hooks.OnDefineDomainResult, params);

export const preCloudInitIso = (sidecar: Sidecar, params: hooks.PreCloudInitIsoParams) =>
  call(sidecar, 'PreCloudInitIso', hooks.PreCloudInitIsoParams, hooks.PreCloudInitIsoResult, params);

export const shutdown = (sidecar: Sidecar, signal: AbortSignal) =>
  call(sidecar, 'Shutdown', hooks.ShutdownParams, hooks.ShutdownResult, {}, signal);

/** Messages are the same in all versions: a version is a name in the path. */
async function call<Params, Result>(
  { socket, name, version }: Sidecar,
  point: HookPoint,
  params: Codec<Params>,
  result: Codec<Result>,
  value: Params,
  signal?: AbortSignal,
): Promise<Result> {
  try {
    const path = `/kubevirt.hooks.${version}.Callbacks/${point}`;
    return await withClient(socket, (client) => unary(client, path, params, result, value, callLimitMs, signal));
  } catch (error) {
    throw failed(name, point, error);
  }
}

function failed(name: string, what: string, cause: unknown): LauncherError {
  const advice =
    "look into the log of its container, or take it out of the VMI's annotation hooks.kubevirt.io/hookSidecars";
  return new LauncherError('HOOK_FAILED', `hook sidecar ${name}: ${what}: ${errorMessage(cause)}: ${advice}`, {
    cause,
  });
}

interface Codec<Message> {
  encode(message: Message): { finish(): Uint8Array };
  decode(bytes: Uint8Array): Message;
}

async function withClient<T>(socket: string, work: (client: Client) => Promise<T>): Promise<T> {
  const name = unixTarget(socket);
  const client = new Client(name.target, credentials.createInsecure(), clientOptions());
  try {
    return await work(client);
  } finally {
    client.close();
    name.close();
  }
}

function unary<Params, Result>(
  client: Client,
  path: string,
  params: Codec<Params>,
  result: Codec<Result>,
  value: Params,
  limitMs: number,
  signal?: AbortSignal,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const call = client.makeUnaryRequest(
      path,
      (message: Params) => Buffer.from(params.encode(message).finish()),
      (bytes: Buffer) => result.decode(bytes),
      value,
      new Metadata(),
      { deadline: Date.now() + limitMs },
      (error, answer) => {
        signal?.removeEventListener('abort', cancel);
        if (error || !answer) reject(signal?.aborted ? signal.reason : (error ?? new Error('it gave no answer')));
        else resolve(answer);
      },
    );
    const cancel = () => call.cancel();
    signal?.addEventListener('abort', cancel, { once: true });
  });
}

const silences: readonly unknown[] = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED];

/** Nobody listens at the socket, or who does has not answered, as on a busy node. */
function isSilent(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && silences.includes(error.code);
}
