import type { X509Certificate } from 'node:crypto';
import { type KubeObject, type ResourceType, resources } from '../../api/index.ts';
import { listOf, memberAt, textAt } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import { readAuthorities, TlsInputError } from '../../tls/index.ts';

/** How clients from outside of the cluster come to exports. */
export interface ExternalAccess {
  readonly host: string;
  /** PEM; empty: clients know it anyhow. */
  readonly cert: string;
}

export interface Asked {
  /** Where KubeVirt is installed. */
  readonly namespace: string;
  readonly client: Pick<KubeClient, 'get' | 'list'>;
  readonly now: Date;
  readonly signal: AbortSignal;
}

const proxyService = 'virt-exportproxy';

/** The first Ingress or Route that leads to upstream's export proxy (getExternalLinkHostAndCert in links.go). */
export async function findExternal(asked: Asked): Promise<ExternalAccess | undefined> {
  const { namespace, client, signal } = asked;
  for (const ingress of await listIfServed(resources.ingresses, asked)) {
    const host = hostOfIngress(ingress);
    if (host !== undefined) return { host, cert: await certOfIngress(ingress, host, asked) };
  }
  for (const route of await listIfServed(resources.routes, asked)) {
    const host = textAt(listOf(memberAt(route, 'status', 'ingress'))[0], 'host');
    if (memberAt(route, 'spec', 'to', 'name') !== proxyService || host === undefined) continue;
    const ref = { namespace, name: 'kube-root-ca.crt' };
    const roots = await getIfThere<KubeObject>(client, resources.configMaps, ref, { signal });
    return { host, cert: certificatesFor(host, memberAt(roots, 'data', 'ca.crt'), asked.now) };
  }
  return undefined;
}

/** A cluster may have neither of these kinds. */
async function listIfServed(type: ResourceType, { namespace, client, signal }: Asked) {
  try {
    return (await client.list<KubeObject>(type, { namespace, signal })).items;
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND')) return [];
    throw error;
  }
}

function hostOfIngress(ingress: KubeObject): string | undefined {
  const rules = listOf(memberAt(ingress, 'spec', 'rules'));
  const backend = memberAt(ingress, 'spec', 'defaultBackend', 'service', 'name');
  if (backend !== undefined) return backend === proxyService ? textAt(rules[0], 'host') : undefined;
  const rule = rules.find((each) =>
    listOf(memberAt(each, 'http', 'paths')).some((one) => memberAt(one, 'backend', 'service', 'name') === proxyService),
  );
  return textAt(rule, 'host');
}

async function certOfIngress(ingress: KubeObject, host: string, asked: Asked): Promise<string> {
  const { namespace, client, signal } = asked;
  const tls = listOf(memberAt(ingress, 'spec', 'tls'));
  const name = tls.map((each) => textAt(each, 'secretName')).find((each) => each !== undefined);
  if (name === undefined) return '';
  const secret = await getIfThere<KubeObject>(client, resources.secrets, { namespace, name }, { signal });
  const bundle = Buffer.from(textAt(secret, 'data', 'tls.crt') ?? '', 'base64').toString('latin1');
  return certificatesFor(host, bundle, asked.now);
}

/** The certificate of the host with those that signed it; where none is of the host, all that hold now. */
function certificatesFor(host: string, bundle: unknown, now: Date): string {
  const known = readCertificates(bundle).filter(
    ({ validFrom, validTo }) => Date.parse(validFrom) <= now.getTime() && now.getTime() < Date.parse(validTo),
  );
  const newest = known
    .filter((each) => each.checkHost(host) !== undefined)
    .sort((one, other) => Date.parse(other.validTo) - Date.parse(one.validTo))[0];
  const chain: X509Certificate[] = [];
  for (let next = newest; next !== undefined && !chain.includes(next); ) {
    chain.push(next);
    const signed: X509Certificate = next;
    next = known.find((each) => each !== signed && signed.checkIssued(each));
  }
  return (chain.length > 0 ? chain : known).map((each) => each.toString().trim()).join('\n');
}

/** One that cannot be read leaves clients with what they know anyhow. */
function readCertificates(bundle: unknown): readonly X509Certificate[] {
  try {
    return readAuthorities(typeof bundle === 'string' ? bundle : '').certificates;
  } catch (error) {
    if (error instanceof TlsInputError) return [];
    throw error;
  }
}
