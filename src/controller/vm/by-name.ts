/** A bare API server takes anything for a list. */
export function listed<T extends { readonly name: string }>(list: readonly T[] | undefined): readonly T[] {
  return Array.isArray(list) ? list.filter((one) => typeof one?.name === 'string') : [];
}

export const named = <T extends { readonly name: string }>(list: readonly T[], name: string) =>
  list.find((one) => one.name === name);
