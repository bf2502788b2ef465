// A link that ends in #token=... fills in the token: what stands after # is never sent to a server.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
const field = document.getElementById("token");
if (token && field) {
  field.value = token;
  history.replaceState(null, "", location.pathname);
}
const name = document.getElementById("name");
try {
  if (!name.value) name.value = localStorage.getItem("askwell-name") || "";
  document.querySelector("form").addEventListener("submit", () => localStorage.setItem("askwell-name", name.value));
} catch { /* no storage: the name is typed each time */ }
