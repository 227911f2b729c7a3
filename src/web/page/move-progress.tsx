import type { VmRow } from '../rows.ts';
import { moveAmount, movedPart, moveText, moveUnderWay } from './move-model.ts';

/** A move that is under way: where to, how far. */
export function MoveProgress({ row }: { readonly row: VmRow }) {
  const move = moveUnderWay(row);
  if (!move) return null;
  const part = movedPart(move);
  const amount = moveAmount(move);
  return (
    <div class="move">
      <p>{moveText(move)}</p>
      <progress aria-label={`Move of ${row.name}`} max={1} {...(part !== undefined && { value: part })} />
      {amount !== '' && <p class="amount">{amount}</p>}
    </div>
  );
}
