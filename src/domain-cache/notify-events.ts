import { type Domain, domainKey, type Key, parseKey, type VmiEvent } from '../api/index.ts';
import { decodeDomain, type JsonLimits, parseJson } from '../wire/index.ts';
import { DomainCacheError } from './errors.ts';

/** The VMI that a channel belongs to. What a message says about itself must agree with it. */
export interface ChannelIdentity {
  readonly key: Key;
  readonly uid: string;
}

const eventLimits: JsonLimits = { maxBytes: 64 * 1024, maxDepth: 32 };
const maxMessageChars = 1024;
const reasonPattern = /^[A-Za-z][A-Za-z0-9]{0,127}$/;

/** Reads a domain event of a channel. Throws WireError, or DomainCacheError WRONG_IDENTITY. */
export function readDomainEvent(bytes: Buffer, identity: ChannelIdentity): Domain {
  return ownDomain(decodeDomain(bytes), identity);
}

/**
 * The domain of a channel's VMI: one of another VMI is refused (upstream believes the body: any launcher can end any
 * VMI), and an empty UID, as GetDomain answers, is filled in from the channel.
 */
export function ownDomain(domain: Domain, { key, uid }: ChannelIdentity): Domain {
  const metadata = domain.Spec.Metadata.KubeVirt;
  const claimed = [metadata.UID, domain.ObjectMeta.uid ?? ''].find((each) => each !== '' && each !== uid);
  if (domainKey(domain) !== key || claimed !== undefined) {
    const who = `${domainKey(domain)} (UID ${claimed ?? uid})`.slice(0, 300);
    throw new DomainCacheError('WRONG_IDENTITY', `this channel belongs to ${key} (UID ${uid}), not to ${who}`);
  }
  metadata.UID = uid;
  domain.ObjectMeta.uid = uid;
  return domain;
}

/** Reads a Kubernetes event of a channel. Throws WireError, or DomainCacheError WRONG_IDENTITY. */
export function readKubernetesEvent(bytes: Buffer, { key, uid }: ChannelIdentity): VmiEvent {
  const event = asObject(parseJson(bytes, eventLimits));
  const involved = asObject(event.involvedObject);
  const { namespace, name } = parseKey(key) ?? {};
  if (involved.namespace !== namespace || involved.name !== name || involved.uid !== uid) {
    throw new DomainCacheError('WRONG_IDENTITY', 'VMI not found');
  }
  const { type, reason, message } = event;
  if (typeof reason !== 'string' || !reasonPattern.test(reason)) {
    throw new DomainCacheError('EVENT_INVALID', 'the event has no usable reason');
  }
  return {
    type: type === 'Warning' ? 'Warning' : 'Normal',
    reason,
    message: typeof message === 'string' ? message.slice(0, maxMessageChars) : '',
  };
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
