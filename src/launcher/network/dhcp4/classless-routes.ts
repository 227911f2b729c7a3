import { type Cidr, ipv4Bytes } from '../../../base/index.ts';

/** Without a gateway the destination is on the link. */
export interface Route4 {
  readonly destination: Cidr;
  readonly gateway?: string;
}

const onLink = Buffer.alloc(4);

/**
 * Option 121 (RFC 3442): prefix, as many bytes of the destination as it needs, gateway. The default route is last: its gateway may be
 * reached by one of the others.
 */
export function encodeClasslessRoutes(routes: readonly Route4[]): Buffer {
  const isDefault = ({ destination }: Route4) => destination.prefix === 0;
  const ordered = [...routes.filter((route) => !isDefault(route)), ...routes.filter(isDefault)];
  const parts = ordered.map(({ destination: { address, prefix }, gateway }) => {
    const bytes = ipv4Bytes(address) ?? onLink;
    return Buffer.concat([
      Buffer.from([prefix]),
      bytes.subarray(0, Math.ceil(prefix / 8)),
      (gateway && ipv4Bytes(gateway)) || onLink,
    ]);
  });
  return Buffer.concat(parts);
}
