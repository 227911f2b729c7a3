import type { Container } from '../../api/index.ts';
import { isRecord, listOf } from '../../base/index.ts';
import { NodeError } from '../errors.ts';

export type ProbeName = 'readiness' | 'liveness';

/** One probe of a container, with all that a kubelet would fill in. Times are seconds. */
export interface Probe {
  readonly name: ProbeName;
  readonly check: ProbeCheck;
  readonly initialDelaySeconds: number;
  readonly periodSeconds: number;
  readonly timeoutSeconds: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
}

/** `host`: undefined is the pod's address. */
export type ProbeCheck =
  | { readonly kind: 'tcpSocket'; readonly host: string | undefined; readonly port: number }
  | {
      readonly kind: 'httpGet';
      readonly scheme: 'http' | 'https';
      readonly host: string | undefined;
      readonly port: number;
      /** With its query. */
      readonly path: string;
      readonly headers: readonly (readonly [string, string])[];
    }
  | { readonly kind: 'exec'; readonly command: readonly string[] };

const maxSeconds = 2 ** 31 - 1;

/** The probes that a container asks for. Throws NodeError POD_INVALID, UNSUPPORTED. */
export function probesOf(container: Container): Probe[] {
  for (const name of ['startupProbe', 'lifecycle']) {
    if (container[name] === undefined) continue;
    throw new NodeError('UNSUPPORTED', `container ${container.name}: the standalone node has no ${name}: remove it`);
  }
  return (['readiness', 'liveness'] as const).flatMap((name) => {
    const given = container[`${name}Probe`];
    return given === undefined || given === null ? [] : [probeOf(name, given, container)];
  });
}

/** What has to be connected to in the pod's own network. */
export function needsAddress({ check }: Probe): boolean {
  return check.kind !== 'exec' && check.host === undefined;
}

function probeOf(name: ProbeName, given: unknown, container: Container): Probe {
  const field = `${name}Probe`;
  if (!isRecord(given)) throw invalid(field, 'must be an object');
  const seconds = (key: string, fallback: number, least = 1) =>
    wholeNumber(`${field}.${key}`, given[key], fallback, least);
  const successThreshold = seconds('successThreshold', 1);
  if (name === 'liveness' && successThreshold !== 1) throw invalid(`${field}.successThreshold`, 'must be 1');
  return {
    name,
    check: checkOf(field, given, container),
    initialDelaySeconds: seconds('initialDelaySeconds', 0, 0),
    periodSeconds: seconds('periodSeconds', 10),
    timeoutSeconds: seconds('timeoutSeconds', 1),
    successThreshold,
    failureThreshold: seconds('failureThreshold', 3),
  };
}

function checkOf(field: string, given: Record<string, unknown>, container: Container): ProbeCheck {
  const kinds = ['exec', 'httpGet', 'tcpSocket', 'grpc'].filter((kind) => isRecord(given[kind]));
  const [kind = ''] = kinds;
  const wish = given[kind];
  if (kinds.length !== 1 || !isRecord(wish)) {
    const found = kinds.length === 0 ? 'none' : kinds.join(', ');
    throw invalid(field, `must say one of exec, httpGet, tcpSocket to ask for, and says ${found}`);
  }
  if (kind === 'grpc') throw new NodeError('UNSUPPORTED', `${field}.grpc: the standalone node has no such probe`);
  if (kind === 'exec') {
    const command = listOf(wish.command).map(String);
    if (command.length === 0) throw invalid(`${field}.exec.command`, 'is empty');
    return { kind, command };
  }
  const host = typeof wish.host === 'string' && wish.host !== '' ? wish.host : undefined;
  const port = portOf(`${field}.${kind}.port`, wish.port, container);
  if (kind === 'tcpSocket') return { kind, host, port };
  const scheme = String(wish.scheme ?? 'HTTP').toLowerCase();
  if (scheme !== 'http' && scheme !== 'https') throw invalid(`${field}.httpGet.scheme`, 'must be HTTP or HTTPS');
  const path = typeof wish.path === 'string' && wish.path !== '' ? wish.path : '/';
  const headers = listOf(wish.httpHeaders).map((header) =>
    isRecord(header) ? ([String(header.name), String(header.value ?? '')] as const) : (['', ''] as const),
  );
  return { kind: 'httpGet', scheme, host, port, path: path.startsWith('/') ? path : `/${path}`, headers };
}

/** A number, or the name of one of the container's ports. */
function portOf(field: string, given: unknown, { ports }: Container): number {
  const named = listOf(ports).find((port) => isRecord(port) && port.name === given && given !== '');
  const port = isRecord(named) ? named.containerPort : given;
  const number = typeof port === 'string' && /^\d{1,5}$/.test(port) ? Number(port) : port;
  if (typeof number === 'number' && Number.isInteger(number) && number > 0 && number < 65_536) return number;
  throw invalid(field, `${JSON.stringify(given)} is neither a port from 1 to 65535 nor the name of a port of the VM`);
}

/** 0 counts as not given where it has no sense, as in Kubernetes. */
function wholeNumber(field: string, given: unknown, fallback: number, least: number): number {
  if (given === undefined || given === null || (given === 0 && least > 0)) return fallback;
  if (typeof given === 'number' && Number.isInteger(given) && given >= least && given <= maxSeconds) return given;
  throw invalid(field, `must be a whole number of at least ${least}, not ${JSON.stringify(given)}`);
}

function invalid(field: string, why: string): NodeError {
  return new NodeError('POD_INVALID', `${field} ${why}`);
}
