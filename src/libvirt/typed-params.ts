import { array, type Codec, double, hyper, int, string, struct, uhyper, uint } from './codec.ts';
import { XdrError } from './xdr.ts';

/** One typed parameter (remote_protocol.x of libvirt): 32-bit and double values are numbers, 64-bit ones bigints. */
export type TypedParam = { readonly field: string } & TypedParamValue;

type TypedParamValue =
  | { readonly type: 'int' | 'uint' | 'double'; readonly value: number }
  | { readonly type: 'llong' | 'ullong'; readonly value: bigint }
  | { readonly type: 'boolean'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string };

export type TypedValue = number | bigint | string | boolean;
export type TypedParams = ReadonlyMap<string, TypedValue>;

const typeNumbers = { int: 1, uint: 2, llong: 3, ullong: 4, double: 5, boolean: 6, string: 7 } as const;

const value: Codec<TypedParamValue> = {
  encode(writer, param) {
    writer.int(typeNumbers[param.type]);
    switch (param.type) {
      case 'int':
        return writer.int(param.value);
      case 'uint':
        return writer.uint(param.value);
      case 'llong':
        return writer.hyper(param.value);
      case 'ullong':
        return writer.uhyper(param.value);
      case 'double':
        return writer.double(param.value);
      case 'boolean':
        return writer.int(param.value ? 1 : 0);
      case 'string':
        return string.encode(writer, param.value);
    }
  },
  decode(reader) {
    const type = reader.int();
    switch (type) {
      case typeNumbers.int:
        return { type: 'int', value: int.decode(reader) };
      case typeNumbers.uint:
        return { type: 'uint', value: uint.decode(reader) };
      case typeNumbers.llong:
        return { type: 'llong', value: hyper.decode(reader) };
      case typeNumbers.ullong:
        return { type: 'ullong', value: uhyper.decode(reader) };
      case typeNumbers.double:
        return { type: 'double', value: double.decode(reader) };
      case typeNumbers.boolean:
        return { type: 'boolean', value: int.decode(reader) !== 0 };
      case typeNumbers.string:
        return { type: 'string', value: string.decode(reader) };
      default:
        throw new XdrError('XDR_INVALID', `typed parameter of unknown type ${type}`);
    }
  },
};

const param = struct({ field: string, value });

/** A list of typed parameters; field names may repeat (`migrate_disks`). */
export function typedParams(max: number): Codec<readonly TypedParam[]> {
  const list = array(param, max);
  return {
    encode(writer, params) {
      list.encode(
        writer,
        params.map(({ field, ...rest }) => ({ field, value: rest })),
      );
    },
    decode(reader) {
      return list.decode(reader).map(({ field, value: rest }) => ({ field, ...rest }));
    },
  };
}

/** The list as a map; of a repeated field the last value is kept. */
export function typedParamMap(params: readonly TypedParam[]): TypedParams {
  return new Map(params.map((each) => [each.field, each.value]));
}
