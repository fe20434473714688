// An OpenID provider that nobody here wrote (npm: oidc-provider), with the claims that a test wants.
// Says its address on stdout; then reads a line of JSON with its configuration from stdin.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const path = createRequire(`${folder}/`).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(path));

let handle = (_, response) => response.writeHead(503).end();
const server = createServer((request, response) => handle(request, response));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
console.log(issuer);

const lines = createInterface({ input: process.stdin });
lines.once("line", (line) => {
  const { clients, claims, idTokenClaims, jwks } = JSON.parse(line);
  const provider = new Provider(issuer, {
    clients,
    jwks,
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    conformIdTokenClaims: !idTokenClaims,
    cookies: { keys: ["only for tests"] },
    features: { devInteractions: { enabled: true } },
    findAccount: async (_, id) => ({
      accountId: id,
      claims: async () => ({ sub: id, ...claims[id] }),
    }),
  });
  handle = provider.callback();
  console.log("ready");
});
lines.once("close", () => process.exit(0));
