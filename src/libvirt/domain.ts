import { array, type Codec, int, string, struct } from './codec.ts';
import { XdrError } from './xdr.ts';

/** A domain as the daemon names it. Only the uuid identifies it; name and id are those of the last lookup or event. */
export interface DomainRef {
  readonly name: string;
  /** 36 characters, lower case. */
  readonly uuid: string;
  /** -1 when inactive. */
  readonly id: number;
}

/** `opaque[16]` to and from the 36-character text form. */
export const uuid: Codec<string> = {
  encode(writer, text) {
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) {
      throw new XdrError('XDR_OUT_OF_RANGE', `not a uuid: ${JSON.stringify(text.slice(0, 64))}`);
    }
    writer.raw(Buffer.from(text.replaceAll('-', ''), 'hex'));
  },
  decode(reader) {
    const hex = reader.raw(16).toString('hex');
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
  },
};

/** `remote_nonnull_domain`. */
export const domain: Codec<DomainRef> = struct({ name: string, uuid, id: int });

/** REMOTE_DOMAIN_LIST_MAX. */
export const domainList = array(domain, 16_384);
