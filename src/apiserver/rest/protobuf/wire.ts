/** Fields of one protobuf message, in order. Only the wire types that Kubernetes uses here: varint and length-delimited. */
export type WireField =
  | { readonly number: number; readonly kind: 'varint'; readonly value: bigint }
  | { readonly number: number; readonly kind: 'bytes'; readonly value: Buffer };

export class WireError extends Error {}

export function* readFields(buffer: Buffer): Generator<WireField> {
  let offset = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = buffer[offset++];
      if (byte === undefined) throw new WireError('it ends within a number');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new WireError('a number has more than 10 bytes');
  };
  while (offset < buffer.length) {
    const tag = varint();
    const number = Number(tag >> 3n);
    const wireType = Number(tag & 7n);
    if (wireType === 0) yield { number, kind: 'varint', value: varint() };
    else if (wireType === 2) {
      const length = Number(varint());
      if (length > buffer.length - offset) throw new WireError(`field ${number} is longer than what is there`);
      yield { number, kind: 'bytes', value: buffer.subarray(offset, offset + length) };
      offset += length;
    } else throw new WireError(`field ${number} has wire type ${wireType}`);
  }
}
