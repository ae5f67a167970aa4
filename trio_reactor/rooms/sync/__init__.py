"""The decisions about rooms: pure, and so printed as tables and tried in every order."""
