/** Who gives out what an upload of a disk has to show; the upload proxy knows its own again. */
export interface UploadTokens {
  /** For one claim, for some minutes. */
  issue(claim: { readonly namespace: string; readonly name: string; readonly uid: string }): Promise<string>;
}
