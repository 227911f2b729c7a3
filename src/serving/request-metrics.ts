import { Counter, Histogram, type Registry } from 'prom-client';
import type { RequestObserver, SentRequest } from '../kube/index.ts';

const latencyBuckets = [
  0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
];
const limiterBuckets = Array.from({ length: 10 }, (_, power) => 0.001 * 2 ** power);

/**
 * Requests to the API server, by upstream's names (pkg/monitoring/metrics/common/client). `url` has no names of objects:
 * upstream's makes a series for each.
 */
export class RequestMetrics {
  readonly #latency: Histogram<'verb' | 'url'>;
  readonly #limiter: Histogram<'verb' | 'url'>;
  readonly #requests: Counter<'code' | 'method' | 'host' | 'resource' | 'verb'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const labelNames = ['verb', 'url'] as const;
    this.#latency = new Histogram({
      name: 'kubevirt_rest_client_request_latency_seconds',
      help: 'Time until the API server answered; a watch counts until it begins.',
      ...{ labelNames, buckets: latencyBuckets, registers },
    });
    this.#limiter = new Histogram({
      name: 'kubevirt_rest_client_rate_limiter_duration_seconds',
      help: 'Time that the rate limit of this program kept a request waiting.',
      ...{ labelNames, buckets: limiterBuckets, registers },
    });
    this.#requests = new Counter({
      name: 'kubevirt_rest_client_requests_total',
      help: 'Requests to the API server; code <error>: there was no answer.',
      labelNames: ['code', 'method', 'host', 'resource', 'verb'] as const,
      registers,
    });
  }

  /** `host`: of the API server, with its port. */
  observer(host: string): RequestObserver {
    return {
      sent: (request) => this.#sent(host, request),
      limited: ({ method, path }, waitedMs) =>
        this.#limiter.observe({ verb: method, url: requestShape(path).url }, waitedMs / 1000),
    };
  }

  #sent(host: string, { method, path, status, isWatch, tookMs }: SentRequest): void {
    const { url, resource, isOne } = requestShape(path);
    this.#latency.observe({ verb: method, url }, tookMs / 1000);
    const verb = resource === undefined ? 'none' : verbOf(method, isOne, isWatch);
    const code = status === undefined ? '<error>' : String(status);
    this.#requests.inc({ code, method, host, resource: resource ?? 'none', verb });
  }
}

function verbOf(method: string, isOne: boolean, isWatch: boolean): string {
  if (isWatch) return 'WATCH';
  if (method === 'GET') return isOne ? 'GET' : 'LIST';
  const verbs: Readonly<Record<string, string>> = { POST: 'CREATE', PUT: 'UPDATE' };
  return verbs[method] ?? method;
}

interface RequestShape {
  /** The path with `{namespace}` and `{name}` in the places of names. */
  readonly url: string;
  /** Plural, with its subresource: `nodes/status`. Undefined: not about objects. */
  readonly resource: string | undefined;
  /** About one object by name. */
  readonly isOne: boolean;
}

/** `/api/v1/…` and `/apis/<group>/<version>/…`; of anything else nothing is kept but its first part. */
export function requestShape(path: string): RequestShape {
  const [first = '', ...rest] = path.split('/').filter((part) => part !== '');
  const rootLength = first === 'api' ? 1 : first === 'apis' ? 2 : undefined;
  if (rootLength === undefined || rest.length <= rootLength)
    return { url: `/${first}`, resource: undefined, isOne: false };
  const root = `/${[first, ...rest.slice(0, rootLength)].join('/')}`;
  const parts = rest.slice(rootLength);
  const isNamespaced = parts[0] === 'namespaces' && parts.length > 2;
  const [resource = '', name, subresource] = isNamespaced ? parts.slice(2) : parts;
  const url = [
    root,
    ...(isNamespaced ? ['namespaces', '{namespace}'] : []),
    resource,
    ...(name === undefined ? [] : ['{name}']),
    ...(subresource === undefined ? [] : [subresource]),
  ].join('/');
  const whole = subresource === undefined ? resource : `${resource}/${subresource}`;
  return { url, resource: whole, isOne: name !== undefined };
}
