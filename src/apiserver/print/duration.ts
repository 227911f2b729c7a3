/** An age as kubectl writes it: `45s`, `3m20s`, `12m`, `5h10m`, `20h`, `3d4h`, `40d`, `2y30d`, `9y`. */
export function humanDuration(seconds: number): string {
  const whole = Math.floor(seconds);
  if (whole < -1) return '<invalid>';
  if (whole < 0) return '0s';
  if (whole < 120) return `${whole}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 10) return two(minutes, 'm', whole % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return two(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (hours < 192) return two(days, 'd', hours % 24, 'h');
  if (days < 730) return `${days}d`;
  const years = Math.floor(days / 365);
  return years < 8 ? two(years, 'y', days % 365, 'd') : `${years}y`;
}

function two(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big}${bigUnit}` : `${big}${bigUnit}${small}${smallUnit}`;
}

/** Age of a timestamp; `<unknown>` when there is none, `<invalid>` when it cannot be read. */
export function age(timestamp: unknown, now: Date): string {
  if (typeof timestamp !== 'string' || timestamp === '') return '<unknown>';
  const time = Date.parse(timestamp);
  return Number.isNaN(time) ? '<invalid>' : humanDuration((now.getTime() - time) / 1000);
}
